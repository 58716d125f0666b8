// View of sizes: as core says them.
export { formatSize } from '../../core/size.ts';
