/**
 * What is in view: within the element that scrolls, or the window on narrow screens, and above the dock, which stays at
 * the bottom of the window there.
 */

import { byId } from "./dom.js";

/** Scroll `frame` so that what lies from `top` to `bottom` of the window is in view, with `room` pixels to spare. */
export function reveal({ top, bottom }, frame, room) {
  const scrolls = getComputedStyle(frame).overflowY !== "visible";
  const scroller = scrolls ? frame : document.scrollingElement;
  const box = scrolls ? frame.getBoundingClientRect() : { top: 0, bottom: innerHeight };
  const last = Math.min(box.bottom, byId("dock").getBoundingClientRect().top);
  if (bottom > last - room) scroller.scrollTop += bottom - last + room;
  else if (top < box.top) scroller.scrollTop -= box.top - top + room;
}
