// Repository path: joining and normalising paths inside a repository, with `/`, '' for the root. Never touches a disk.

export const dirname = (path: string): string => path.slice(0, Math.max(0, path.lastIndexOf('/')));
export const basename = (path: string): string => path.slice(path.lastIndexOf('/') + 1);
export const join = (folder: string, name: string): string => (folder === '' ? name : `${folder}/${name}`);
export const isBelow = (path: string, folder: string): boolean =>
  folder === '' || path === folder || path.startsWith(`${folder}/`);

/** `path` seen from `folder`; null when it is absolute or leaves the repository. */
export function resolvePath(folder: string, path: string): string | null {
  if (path.startsWith('/')) return null;
  const parts = folder === '' ? [] : folder.split('/');
  for (const part of path.split('/')) {
    if (part === '' || part === '.') continue;
    if (part === '..') {
      if (parts.length === 0) return null;
      parts.pop();
    } else parts.push(part);
  }
  return parts.join('/');
}
