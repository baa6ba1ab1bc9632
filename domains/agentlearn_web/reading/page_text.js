// Returns the text of the document in reading order, in blocks of runs with flags: 1 not visible, 2 struck out.
// Runs in an isolated world and changes nothing, so the page can neither see nor alter it.
(maxChars) => {
  const LEAST_OPACITY = 0.1, LEAST_FONT_PX = 5, LEAST_SIDE_PX = 2, LEAST_COLOR_STEP = 16;
  const MOST_NODES = 400000, MOST_DEPTH = 2500, MOST_PAINTED = 2000, MOST_DOUBTS = 2000, MOST_CELLS = 20000;
  const SKIPPED = new Set(["script", "style", "noscript", "template", "head", "textarea", "title", "datalist",
    "object", "video", "audio", "canvas"]);
  const PAINTED = new Set(["img", "video", "canvas", "svg", "picture", "iframe", "object", "embed"]);
  const INLINE = /^(inline|contents|ruby|none)/;
  const blocks = [], cells = [], painted = [], doubts = [], colors = new Map();
  let runs = [], heading = false, pre = 0, pres = 0, size = 0, nodes = 0, cut = false, partial = false;
  const spans = document.querySelector("[rowspan],[colspan]") !== null;
  const range = document.createRange();

  const flush = () => {
    if (runs.some((run) => /\S/.test(run[1]))) blocks.push({ runs, heading, pre });
    runs = [];
  };
  const add = (text, flags) => {
    const last = runs[runs.length - 1];
    if (size >= maxChars) { cut = true; return null; }
    const kept = text.slice(0, maxChars - size);
    cut ||= kept.length < text.length;
    size += kept.length;
    const run = [flags, kept];
    if (last && last[0] === flags && !last.doubtful) { last[1] += kept; return last; }
    runs.push(run);
    return run;
  };
  const rgba = (color) => {
    if (!colors.has(color)) {
      const plain = /^rgba?\(([\d.]+), ([\d.]+), ([\d.]+)(?:, ([\d.]+))?\)$/.exec(color);
      let value = null;
      if (plain) value = [+plain[1], +plain[2], +plain[3], plain[4] === undefined ? 1 : +plain[4]];
      else {
        try {
          const pen = new OffscreenCanvas(1, 1).getContext("2d");
          pen.fillStyle = color;
          pen.fillRect(0, 0, 1, 1);
          const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
          value = [r, g, b, a / 255];
        } catch { value = null; }
      }
      colors.set(color, value);
    }
    return colors.get(color);
  };
  const over = (top, below) => top && below
    && [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const alike = (a, b) => a && b && [0, 1, 2].every((i) => Math.abs(a[i] - b[i]) < LEAST_COLOR_STEP);
  const meet = (a, b) => a === null ? b : {
    left: Math.max(a.left, b.left), top: Math.max(a.top, b.top),
    right: Math.min(a.right, b.right), bottom: Math.min(a.bottom, b.bottom),
  };
  const clippedAway = (style) => {
    const clip = /^rect\((-?[\d.]+)px, (-?[\d.]+)px, (-?[\d.]+)px, (-?[\d.]+)px\)$/.exec(style.clip);
    const out = /^(absolute|fixed)$/.test(style.position);
    if (out && clip && (clip[2] - clip[4] < LEAST_SIDE_PX || clip[3] - clip[1] < LEAST_SIDE_PX)) return true;
    const inset = /^inset\(([\d.]+)%(?: ([\d.]+)%)?/.exec(style.clipPath);
    if (inset && (+inset[1] >= 50 || +(inset[2] ?? 0) >= 50)) return true;
    return /^(circle|ellipse)\(0(px|%)?\b/.test(style.clipPath) || /opacity\(0(\.0\d*)?\)/.test(style.filter);
  };
  // What children inherit: opacity, clip of normal flow, clip of absolute children, background color, hidden, struck.
  const inherit = (element, style, from) => {
    const to = { ...from };
    to.opacity *= +style.opacity;
    if (style.position === "fixed") to.clip = null;
    else if (style.position === "absolute") to.clip = from.absolute;
    const shown = style.display !== "contents";
    const paints = shown && (style.backgroundImage !== "none" || rgba(style.backgroundColor)?.[3] !== 0);
    if (paints) {
      to.background = style.backgroundImage !== "none" ? null : over(rgba(style.backgroundColor), from.background);
      if (painted.length < MOST_PAINTED && to.opacity >= LEAST_OPACITY)
        painted.push([element, element.getBoundingClientRect(), style.backgroundImage !== "none" ? null : to.background]);
    }
    if (/text/.test(style.backgroundClip)) to.background = null;
    if (shown && (style.overflowX !== "visible" || style.overflowY !== "visible") && element !== document.body
        && element !== document.documentElement && !INLINE.test(style.display.replace("inline-", ""))) {
      const box = meet(to.clip, element.getBoundingClientRect());
      if (box.right - box.left < LEAST_SIDE_PX || box.bottom - box.top < LEAST_SIDE_PX) to.clip = box;
      else {
        const scrollsX = /auto|scroll/.test(style.overflowX), scrollsY = /auto|scroll/.test(style.overflowY);
        to.clip = { ...box, ...(scrollsX && { left: -1e9, right: 1e9 }), ...(scrollsY && { top: -1e9, bottom: 1e9 }) };
      }
    }
    if (style.position !== "static" || style.transform !== "none") to.absolute = to.clip;
    to.hidden ||= to.opacity < LEAST_OPACITY || style.contentVisibility === "hidden" || clippedAway(style);
    to.struck ||= style.textDecorationLine.includes("line-through") || /^(s|del|strike)$/.test(element.localName);
    return to;
  };
  const isSeen = (node, style, state, run) => {
    if (state.hidden || parseFloat(style.fontSize) < LEAST_FONT_PX) return false;
    range.selectNodeContents(node);
    let box = range.getBoundingClientRect();
    if (box.width === 0 && box.height === 0) return state.inList;
    if (box.height < LEAST_FONT_PX - 1 || box.right + scrollX < LEAST_SIDE_PX || box.bottom + scrollY < LEAST_SIDE_PX)
      return false;
    if (state.clip) {
      const left = meet(state.clip, box);
      if (left.right - left.left < LEAST_SIDE_PX || left.bottom - left.top < LEAST_SIDE_PX) return false;
    }
    const ink = rgba(style.webkitTextFillColor);
    if (ink && ink[3] < LEAST_OPACITY) return state.background === null;
    if (state.background && alike(over(ink, state.background), state.background)) return [box, ink];
    return true;
  };
  const read = (node, style, state) => {
    const raw = node.data;
    if (style.visibility !== "visible" || !raw) return;
    const keeps = /^(pre|break-spaces)/.test(style.whiteSpace) || /preserve/.test(style.whiteSpaceCollapse ?? "");
    const text = keeps ? raw : raw.replace(/[ \t\r\n\f]+/g, " ");
    if (!text.trim()) {
      if (runs.length) add(text, runs[runs.length - 1][0]);
      return;
    }
    if (keeps && state.pre && raw.includes("\n")) pre = state.pre;
    const seen = isSeen(node, style, state);
    const flags = (seen ? 0 : 1) | (state.struck ? 2 : 0);
    if (Array.isArray(seen)) {
      const run = [flags, ""];
      run.doubtful = true;
      runs.push(run);
      const before = size;
      run[1] = text.slice(0, Math.max(maxChars - before, 0));
      size += run[1].length;
      if (doubts.length < MOST_DOUBTS) doubts.push([run, node.parentElement, ...seen]);
      else run[0] |= 1;
    } else add(text, flags);
  };
  const walk = (node, style, state, depth) => {
    if (cut) return;
    if (++nodes > MOST_NODES || depth > MOST_DEPTH) { cut = true; return; }
    if (node.nodeType === Node.TEXT_NODE) { if (style) read(node, style, state); return; }
    if (node.nodeType !== Node.ELEMENT_NODE) return;
    const name = node.localName;
    if (name === "br") { if (state.pre) { add("\n", runs.length ? runs[runs.length - 1][0] : 0); pre = state.pre; } else flush(); return; }
    if (PAINTED.has(name) && painted.length < MOST_PAINTED && !state.hidden) painted.push([node, node.getBoundingClientRect(), null]);
    if (name === "iframe" || name === "frame") {
      let inner = null;
      try { inner = node.contentDocument; } catch { inner = null; }
      const own = getComputedStyle(node);
      if (own.display === "none" || own.visibility !== "visible") return;
      partial = true;
      const root = inner?.documentElement;
      if (!root) return;
      flush();
      const to = inherit(node, own, state), box = node.getBoundingClientRect();
      const gone = to.hidden || box.width < LEAST_SIDE_PX || box.height < LEAST_SIDE_PX
        || box.right + scrollX < LEAST_SIDE_PX || box.bottom + scrollY < LEAST_SIDE_PX;
      walk(root, null, { ...start, hidden: gone }, depth + 1);
      flush();
      return;
    }
    if (SKIPPED.has(name)) return;
    const own = getComputedStyle(node);
    if (own.display === "none") return;
    const to = inherit(node, own, state);
    const isBlock = !INLINE.test(own.display) || name === "option";
    const isCell = own.display === "table-cell";
    if (name === "option" || name === "optgroup") to.inList = true;
    if (isBlock && !isCell) flush();
    if (isCell) {
      if (runs.length) add("\t", runs[runs.length - 1][0]);
      if (spans && cells.length < MOST_CELLS)
        cells.push([node.rowSpan ?? 1, node.colSpan ?? 1, node.textContent.slice(0, 300)]);
    }
    const before = [heading, pre];
    if (isBlock && !isCell) {
      heading = state.heading || /^h[1-6]$/.test(name) || node.getAttribute("role") === "heading";
      to.heading = heading;
      const keeps = /^pre/.test(own.whiteSpace);
      if (!keeps) to.pre = 0;
      else if (!state.inPre) to.pre = ++pres;
      to.inPre = keeps && (state.inPre || name === "pre" || name === "listing");
      pre = keeps && state.inPre ? to.pre : 0;
    }
    if (node.shadowRoot) partial = true;
    const children = name === "slot" && node.assignedNodes().length ? node.assignedNodes()
      : (node.shadowRoot ?? node).childNodes;
    for (const child of children) walk(child, own, to, depth + 1);
    if (isBlock && !isCell) { flush(); [heading, pre] = before; }
  };
  const start = { opacity: 1, clip: null, absolute: null, background: [255, 255, 255, 1], hidden: false, struck: false,
    heading: false, pre: 0, inPre: false, inList: false };
  const scheme = getComputedStyle(document.documentElement).colorScheme;
  if (/dark/.test(scheme) && !/light/.test(scheme)) start.background = [18, 18, 18, 1];
  walk(document.documentElement, null, start, 0);
  flush();
  // Text in the color of its own background can still lie on a picture or on another box.
  for (const [run, parent, box, ink] of doubts) {
    const lies = painted.some(([element, other, color]) => !element.contains(parent) && !alike(color, over(ink, color) ?? [0, 0, 0])
      && (Math.min(other.right, box.right) - Math.max(other.left, box.left)) * 2 > box.width
      && (Math.min(other.bottom, box.bottom) - Math.max(other.top, box.top)) * 2 > box.height);
    if (!lies) run[0] |= 1;
  }
  return { blocks, cells, cut, partial };
}
