// The one place that knows the interface library.
import { Component, Fragment, h, render } from "../../vendor/preact.js";
import htm from "../../vendor/htm.js";

export { useCallback, useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState } from "../../vendor/preact-hooks.js";
export { Component, Fragment, h, render };

export const html = htm.bind(h);

/** A view that renders again only when one of its properties is another object than before. */
export function memo(view) {
  return class extends Component {
    shouldComponentUpdate(next) {
      const now = this.props;
      for (const key in next) if (next[key] !== now[key]) return true;
      for (const key in now) if (!(key in next)) return true;
      return false;
    }
    render(props) {
      return view(props);
    }
  };
}
