// @ts-check
/** Small drawings, so that nothing depends on the fonts of a machine. */

import { html } from "../vendor/preact.js";

/** @type {Record<string, string>} */
const PATHS = {
  bell: "M8 2a4 4 0 0 0-4 4v3l-1.500 2.500h11L12 9V6a4 4 0 0 0-4-4zM6.500 13a1.500 1.500 0 0 0 3 0",
  "bell-off": "M4 6.500V9l-1.500 2.500H11M5.200 3.200A4 4 0 0 1 12 6v3l.8 1.300M6.500 13a1.500 1.500 0 0 0 3 0M2 2l12 12",
  first: "M4 3v10M13 3L6 8l7 5z",
  back: "M11 3L4 8l7 5z",
  play: "M5 3l8 5-8 5z",
  pause: "M5.500 3v10M10.500 3v10",
  on: "M5 3l7 5-7 5z",
  last: "M12 3v10M3 3l7 5-7 5z",
};

/** @param {{name: string}} props */
export function Icon({ name }) {
  return html`<svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true"><path d=${PATHS[name]} /></svg>`;
}
