// A value that views and modules can watch.
import { useLayoutEffect, useState } from "./ui.js";

export class Observable {
  #value;
  #watchers = new Set();

  constructor(value) {
    this.#value = value;
  }
  get value() {
    return this.#value;
  }
  set(value) {
    if (Object.is(value, this.#value)) return;
    this.#value = value;
    for (const watcher of [...this.#watchers]) watcher(value);
  }
  /** Returns the function that stops watching. */
  watch(watcher) {
    this.#watchers.add(watcher);
    return () => this.#watchers.delete(watcher);
  }
}

export function useObservable(observable) {
  const [value, setValue] = useState(observable.value);
  useLayoutEffect(() => {
    setValue(observable.value);
    return observable.watch((next) => setValue(next));
  }, [observable]);
  return value;
}
