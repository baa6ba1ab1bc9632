// Brings an element into the window, and returns a point of it, measured from its corner, that no other element covers
// and where no other control stands in it, if there is one; the middle of what it holds if possible. Else a point of its
// label, or the middle if only a part of the same field covers it, such as its placeholder. null if there is none.
// `window` is the point as seen from the window, if the element is in no frame. `sure`: whether nothing else needs to be
// waited for before it is pressed there. waits: whether to let the page draw its next frame first.
async (one, waits) => {
  const boxNow = () => Object.values(one.getBoundingClientRect().toJSON()).join();
  const before = boxNow();
  if (waits) await new Promise((drawn) => requestAnimationFrame(() => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = drawn;
    port2.postMessage(0);
  }));
  const moves = waits ? before !== boxNow() : document.getAnimations().some((one) => one.playState === "running");
  const top = window === window.top;
  const sure = top && !moves && !one.matches(":disabled") && !one.closest('[aria-disabled="true" i]');
  const measured = (point, sure) => {
    const { x, y } = one.getBoundingClientRect();
    return point && { point, sure, window: top ? { x: x + point.x, y: y + point.y } : null };
  };
  const parts = [0.5, 0.25, 0.75, 0.1, 0.9], others = "a[href],button,input,select,textarea,summary,label";
  const hits = (at, target) => at !== null && (target === at || target.contains(at) || hits(at.getRootNode().host ?? null, target));
  const content = document.createRange();
  content.selectNodeContents(one);
  const pointIn = (box, { x, y }, target = one) => {
    let second = null;
    for (const down of parts) {
      for (const across of parts) {
        const point = { x: box.x - x + across * box.width, y: box.y - y + down * box.height };
        const at = one.getRootNode().elementFromPoint(x + point.x, y + point.y);
        if (!hits(at, target)) continue;
        const other = at.closest(others);
        if (!other || other.contains(target)) return point;
        second ??= point;
      }
    }
    return target === one ? second : null;
  };
  const point = () => {
    const box = one.getBoundingClientRect(), held = content.getBoundingClientRect();
    const inside = held.width > 0 && held.height > 0 && held.left >= box.left && held.right <= box.right
      && held.top >= box.top && held.bottom <= box.bottom;
    return (inside && pointIn(held, box)) || pointIn(box, box);
  };
  const { left, top: above, right, bottom } = one.getBoundingClientRect();
  if (left >= 0 && above >= 0 && right <= innerWidth && bottom <= innerHeight) {
    const found = point();
    if (found) return measured(found, sure);
  }
  one.scrollIntoView({ block: "center", inline: "nearest", behavior: "instant" });
  const free = point();
  if (free) return measured(free, sure);
  const beside = one.matches("input") && !one.labels?.length ? one.parentElement?.querySelector("label:not([for])") : null;
  for (const label of beside ? [beside] : one.labels ?? []) {
    label.scrollIntoView({ block: "nearest", inline: "nearest", behavior: "instant" });
    const drawn = pointIn(label.getBoundingClientRect(), one.getBoundingClientRect(), label);
    if (drawn) return measured(drawn, !one.disabled);
  }
  if (!one.matches('input,select,textarea,[role="combobox" i],[role="textbox" i],[role="searchbox" i]')) return null;
  const { x, y, width, height } = one.getBoundingClientRect(), middle = { x: width / 2, y: height / 2 };
  const over = one.getRootNode().elementFromPoint(x + middle.x, y + middle.y);
  let around = one.parentElement;
  for (let up = 1; up < 4 && around && over && !around.contains(over); up++) around = around.parentElement;
  const small = over && around?.contains(over) && around.clientHeight <= Math.max(2 * height, 60);
  return small && !over.closest(others) ? measured(middle, true) : null;
}
