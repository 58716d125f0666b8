// Silent: watches nothing.
import type { Observer } from '../observer.ts';

export const silentObserver: Observer = {};
