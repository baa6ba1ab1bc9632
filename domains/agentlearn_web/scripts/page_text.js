// Returns the text of the document in reading order, in blocks of runs with flags: 1 not visible, 2 struck out,
// 4 inside a button or link that can be seen, 8 raised over the number before it, 16 counted by the page's style. What stands apart on the screen stands
// apart in the text. A block that follows a line break in the same element is `joined`.
// Runs in an isolated world and changes nothing, so the page can neither see nor alter it.
(maxChars) => {
  const LEAST_OPACITY = 0.1, LEAST_FONT_PX = 5, LEAST_SIDE_PX = 2, LEAST_COLOR_STEP = 28, OPAQUE = 0.95, MOSTLY = 0.9, BAND_PX = 100, MOST_BANDS = 50;
  const MOST_NODES = 400000, MOST_DEPTH = 2500, MOST_PAINTED = 2000, MOST_DOUBTS = 2000, MOST_CELLS = 20000,
    MOST_BURIED = 50000, MOST_COVERS = 500, MOST_VALUES = 500, MOST_VALUE_CHARS = 5000,
    MOST_SCROLLERS = 50, MOST_READ_MS = 20000, LEAST_SCROLLER_PX = 20, LEAST_CONTROL_PX = 8, MOST_LOOSE_CHARS = 25,
    MOST_NOTES = 300, MOST_NOTE_CHARS = 200, LEAST_DRAWING_PX = 40,
    LEAST_GAP = 0.13, LEAST_RISE = 0.12, DESCENT = 0.2;  // parts of the height of a line of text
  const SKIPPED = new Set(["script", "style", "noscript", "template", "head", "textarea", "title", "datalist",
    "object", "video", "audio", "canvas"]);
  const PAINTED = new Set(["img", "video", "canvas", "svg", "picture", "iframe", "object", "embed"]);
  const INLINE = /^(inline|contents|ruby|none)/;
  const UNTITLED = /^(a|button|input|select|textarea|img|svg|summary|iframe)$/;
  const SHAPES = new Set(["rect", "path", "circle", "ellipse", "polygon", "image", "use"]);
  const ROLES = { a: "link", button: "button", textarea: "textbox", checkbox: "checkbox", radio: "radio", range: "slider",
    number: "spinbutton", search: "searchbox", submit: "button", reset: "button", image: "button", file: "button" };
  const CHOICES = '[role="option" i],[role="treeitem" i]';
  const CONTROLS = 'a[href],button,summary,[role="button" i],[role="link" i],[role="tab" i],[role="checkbox" i],' +
    '[role="switch" i],[role="radio" i],[role^="menuitem" i]';
  const blocks = [], cells = [], painted = [], doubts = [], colors = new Map(),
    covers = [], buried = [], unseen = [], shown = [], secrets = [], ordinals = new Map(), scrollers = [], notes = [], editors = [], gone = [];
  let box = null, last = null, crossed = "";
  let joined = false, runs = [], heading = false, pre = 0, pres = 0, size = 0, nodes = 0, cut = false, partial = false;
  const ordered = document.querySelector("[aria-rowindex],[aria-sort]:not([aria-sort=none])") !== null;
  const virtual = document.querySelector("[aria-rowcount]") !== null;
  const spans = document.querySelector("[rowspan],[colspan]") !== null;
  const range = document.createRange();

  const flush = (atBreak = false) => {
    const filled = runs.some((run) => /\S/.test(run[1]));
    if (filled) blocks.push({ runs, heading, pre, joined });
    joined = atBreak && (filled || joined);
    runs = [];
    last = null;
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
  const meet = (a, b) => ({
    left: Math.max(a?.left ?? -1e9, b.left), top: Math.max(a?.top ?? -1e9, b.top),
    right: Math.min(a?.right ?? 1e9, b.right), bottom: Math.min(a?.bottom ?? 1e9, b.bottom),
  });
  const colorsOf = (image) => /url\(|image-set|element\(|paint\(|cross-fade/.test(image) ? []
    : (image.match(/rgba?\([^)]*\)/g) ?? []).map(rgba);
  // The color of a background: of a picture only if it is a gradient between colors that look alike.
  const backgroundOf = (style, below) => {
    const plain = over(rgba(style.backgroundColor), below);
    if (style.backgroundImage === "none") return plain;
    const mixed = colorsOf(style.backgroundImage).map((color) => over(color, plain));
    return mixed.length && mixed.every((color) => alike(color, mixed[0])) ? mixed[0] : null;
  };
  const clippedAway = (style) => {
    const clip = /^rect\((-?[\d.]+)px, (-?[\d.]+)px, (-?[\d.]+)px, (-?[\d.]+)px\)$/.exec(style.clip);
    const out = /^(absolute|fixed)$/.test(style.position);
    if (out && clip && (clip[2] - clip[4] < LEAST_SIDE_PX || clip[3] - clip[1] < LEAST_SIDE_PX)) return true;
    const mask = colorsOf(style.maskImage ?? style.webkitMaskImage ?? "");
    if (mask.length && mask.every((color) => color && color[3] < LEAST_OPACITY)) return true;
    return /(opacity|contrast)\(0(\.0\d*)?\)/.test(style.filter);
  };
  // The part of a box that a clip path leaves, as the box around its shape; null if the path has another form.
  const shapeOf = (clipPath, box) => {
    const shape = /^(inset|polygon|circle|ellipse)\((.*)\)$/.exec(clipPath);
    if (!shape) return null;
    const size = [box.right - box.left, box.bottom - box.top];
    const words = (text) => text.match(/calc\([^)]*\)|[^\s,]+/g) ?? [];
    const px = (word, axis) => (word.match(/(- ?)?[\d.]+(%|px)/g) ?? []).reduce((sum, part) => {
      const number = parseFloat(part.replace(/ /g, ""));
      return sum + (part.endsWith("%") ? number / 100 * size[axis] : number);
    }, 0);
    const made = (left, top, right, bottom) =>
      ({ left: box.left + left, top: box.top + top, right: box.left + right, bottom: box.top + bottom });
    if (shape[1] === "polygon") {
      const corners = shape[2].split(",").map(words).filter((one) => one.length === 2);
      const [x, y] = [0, 1].map((axis) => corners.map((one) => px(one[axis], axis)));
      return made(Math.min(...x), Math.min(...y), Math.max(...x), Math.max(...y));
    }
    if (shape[1] === "inset") {
      const [top, right = top, bottom = top, left = right] = words(shape[2].split("round")[0]);
      return made(px(left, 0), px(top, 1), size[0] - px(right, 0), size[1] - px(bottom, 1));
    }
    const [radii, center] = shape[2].split(/\bat\b/).map(words), [atX = "50%", atY = "50%"] = center ?? [];
    const [rx, ry] = [0, 1].map((axis) => {
      const radius = radii[axis] ?? radii[0] ?? "";
      return /\d/.test(radius) ? px(radius, axis) : Math.max(...size);
    });
    return made(px(atX, 0) - rx, px(atY, 1) - ry, px(atX, 0) + rx, px(atY, 1) + ry);
  };
  const makesContext = (style) => /^(fixed|sticky)$/.test(style.position) || +style.opacity < 1
    || (style.position !== "static" && style.zIndex !== "auto") || style.transform !== "none" || style.filter !== "none"
    || style.isolation === "isolate" || style.mixBlendMode !== "normal" || /transform|opacity/.test(style.willChange)
    || /paint|layout|strict|content/.test(style.contain);
  // What children inherit: opacity, clip of normal flow, clip of absolute children, background color, hidden, struck.
  const inherit = (element, style, from, added = false) => {
    const to = { ...from };
    to.opacity *= +style.opacity;
    if (added) {
      if (rgba(style.backgroundColor)?.[3] || style.backgroundImage !== "none") to.background = backgroundOf(style, from.background);
      to.hidden ||= to.opacity < LEAST_OPACITY || clippedAway(style);
      return to;
    }
    if (style.position === "fixed") {
      to.clip = from.moved ? null : { left: 0, top: 0, right: innerWidth, bottom: innerHeight };
      [to.scrolledX, to.scrolledY] = [0, 0];
    } else if (style.position === "absolute")
      [to.clip, to.scrolledX, to.scrolledY] = [from.absolute, from.absoluteX, from.absoluteY];
    if (style.position !== "static" && +style.zIndex < 0) to.under = [from.context, element];
    if (makesContext(style)) to.context = to.placed = element;
    else if (style.position !== "static") to.placed = element;
    if (style.transform !== "none") to.moved = true;
    const shown = style.display !== "contents";
    const paints = shown && (style.backgroundImage !== "none" || rgba(style.backgroundColor)?.[3] !== 0);
    if (paints) {
      to.background = backgroundOf(style, from.background);
      const opaque = rgba(style.backgroundColor)?.[3] >= OPAQUE && to.opacity >= OPAQUE && style.visibility === "visible"
        && element !== document.body && element !== document.documentElement;
      if (opaque && !to.hidden && !/^(fixed|sticky)$/.test(style.position) && covers.length < MOST_COVERS)
        covers.push([element, meet(to.clip, element.getBoundingClientRect()), style.position !== "static", Boolean(to.under)]);
      if (painted.length < MOST_PAINTED && to.opacity >= LEAST_OPACITY)
        painted.push([element, element.getBoundingClientRect(), to.background]);
    }
    if (/text/.test(style.backgroundClip)) {
      to.clipped = style.backgroundImage !== "none" || rgba(style.backgroundColor)?.[3] >= LEAST_OPACITY;
      [to.clippedInk, to.background] = [backgroundOf(style, from.background), from.background];
    } else if (paints && rgba(style.backgroundColor)?.[3] >= OPAQUE) to.clipped = false;
    const cut = style.clipPath === "none" ? null : shapeOf(style.clipPath, element.getBoundingClientRect());
    if (cut) [to.clip, to.absolute] = [meet(to.clip, cut), meet(to.absolute, cut)];
    to.blur = Math.max(from.blur, +(/blur\(([\d.]+)px\)/.exec(style.filter)?.[1] ?? 0));
    if (shown && (style.overflowX !== "visible" || style.overflowY !== "visible") && element !== document.body
        && element !== document.documentElement && (element.localName === "svg" || !INLINE.test(style.display.replace("inline-", "")))) {
      const box = meet(to.clip, element.getBoundingClientRect());
      if (box.right - box.left < LEAST_SIDE_PX || box.bottom - box.top < LEAST_SIDE_PX) to.clip = box;
      else {
        const scrollsX = /auto|scroll/.test(style.overflowX), scrollsY = /auto|scroll/.test(style.overflowY);
        to.clip = { ...box, ...(scrollsX && { left: -1e9, right: 1e9 }), ...(scrollsY && { top: -1e9, bottom: 1e9 }) };
      }
    }
    if (element !== document.scrollingElement) {
      to.scrolledX += element.scrollLeft;
      to.scrolledY += element.scrollTop;
    }
    if (style.position !== "static" || style.transform !== "none")
      [to.absolute, to.absoluteX, to.absoluteY] = [to.clip, to.scrolledX, to.scrolledY];
    to.hidden ||= to.opacity < LEAST_OPACITY || style.contentVisibility === "hidden" || clippedAway(style);
    to.struck ||= style.textDecorationLine.includes("line-through") || /^(s|del|strike)$/.test(element.localName);
    return to;
  };
  const strokeOf = (style) => (parseFloat(style.webkitTextStrokeWidth) >= 0.5 ? rgba(style.webkitTextStrokeColor) : null);
  const shadowOf = (style, size) => {
    const found = /^(rgba?\([^)]*\)) (-?[\d.]+)px (-?[\d.]+)px ([\d.]+)px/.exec(style.textShadow);
    return found && +found[4] < size ? rgba(found[1]) : null;
  };
  // What text is drawn with, the strongest first; null if a picture or a gradient is seen through it.
  const inksOf = (style, state, size) => {
    if (style.fill && state.inDrawing)
      return [[style.fill, style.fillOpacity], [style.stroke, parseFloat(style.strokeWidth) < 0.5 ? 0 : style.strokeOpacity]]
        .map(([color, part]) => [/^url/.test(color) ? null : color === "none" ? [0, 0, 0, 0] : rgba(color), +part])
        .map(([color, part]) => color && [...color.slice(0, 3), color[3] * part]);
    const ink = rgba(style.webkitTextFillColor);
    if (ink && ink[3] < LEAST_OPACITY && state.clipped) return [state.clippedInk];
    return [ink, ...[strokeOf(style), shadowOf(style, size)].filter(Boolean)];
  };
  const isSeen = (node, style, state) => {
    const size = parseFloat(style.fontSize);
    if (state.hidden || size < LEAST_FONT_PX || parseFloat(style.letterSpacing) < -size / 2 || state.blur >= size / 4)
      return false;
    range.selectNodeContents(node);
    box = range.getBoundingClientRect();
    if (box.width === 0 && box.height === 0) return state.inList;
    if (box.height < LEAST_FONT_PX - 1 || box.width < LEAST_SIDE_PX / 2) return false;
    if (box.right + scrollX + state.scrolledX < LEAST_SIDE_PX || box.bottom + scrollY + state.scrolledY < LEAST_SIDE_PX)
      return false;
    if (state.clip) {
      const left = meet(state.clip, box);
      if (left.right - left.left < LEAST_SIDE_PX || left.bottom - left.top < LEAST_SIDE_PX) return false;
    }
    return drawn(style, state, size);
  };
  // Whether text of this style stands out: true, false, or [box, ink] if that depends on what lies around it.
  const drawn = (style, state, size) => {
    const inks = inksOf(style, state, size).filter((ink) => !ink || ink[3] >= LEAST_OPACITY);
    if (!inks.length) return false;
    if (!state.background || inks.some((ink) => !ink || !alike(over(ink, state.background), state.background))) return true;
    return [box, inks[0]];
  };
  // Words that the style of the page adds. Their place is not known, so only short ones may stand elsewhere than in line.
  const readAdded = (node, pseudo, state) => {
    const style = getComputedStyle(node, pseudo);
    if (/^(none|normal|)$/.test(style.content) || style.display === "none" || style.visibility !== "visible") return;
    if (style.counterReset !== "none" || style.counterIncrement !== "none") count(node, style, node);
    const parts = style.content.split(/ \/ (?=["a])/)[0].match(/"(?:[^"\\]|\\.)*"|[\w-]+\((?:"[^"]*"|[^)"])*\)/g) ?? [];
    let counts = 0;
    const words = parts.map((part) => /^counters?\(/.test(part) ? (counts = 16, counted(part, node)) : part[0] === '"' ? part.slice(1, -1).replace(/\\(.)/g, "$1")
      : part.startsWith("attr(") ? node.getAttribute(part.slice(5, -1).trim()) ?? "" : "").join("");
    if (!words.trim()) return;
    const size = parseFloat(style.fontSize), apart = !INLINE.test(style.display);
    const inLine = style.position === "static" && style.transform === "none" && parseFloat(style.textIndent) >= 0
      && parseFloat(style.marginLeft) >= 0 && parseFloat(style.marginTop) >= 0 && style.overflow === "visible";
    box = node.getBoundingClientRect();
    const left = state.clip ? meet(state.clip, box) : box, inside = left.right - left.left >= LEAST_SIDE_PX
      && left.bottom - left.top >= LEAST_SIDE_PX && box.right + scrollX + state.scrolledX >= LEAST_SIDE_PX
      && box.bottom + scrollY + state.scrolledY >= LEAST_SIDE_PX;
    const added = inherit(node, style, { ...state }, true);
    const seen = !added.hidden && size >= LEAST_FONT_PX && added.blur < size / 4 && drawn(style, added, size) === true
      && (inLine ? inside : words.length <= MOST_LOOSE_CHARS);
    add(apart ? ` ${words} ` : words, (seen ? 0 : 1) | (state.control ? 4 : 0) | counts);
    last = null;
  };
  const characterBox = (node, at) => {
    range.setStart(node, at);
    range.setEnd(node, at + 1);
    return range.getBoundingClientRect();
  };
  // Whether a person sees a text apart from the one before it although no space stands between them: "" if not,
  // "raised" for a number that is raised over another one and is no link. crossed: which kind of box begins or ends between them.
  const apartness = (node, at, link) => {
    const a = characterBox(last.node, last.at), b = characterBox(node, at), [left, right] = [last.node.data[last.at], node.data[at]];
    if (!a.width || !b.width) return "";
    if (crossed === "border" || b.bottom <= a.top) return "apart";
    const tall = Math.max(a.height, b.height), small = Math.min(a.height, b.height);
    if (b.top >= a.bottom) return crossed ? "apart" : "";  // a line is broken
    if (Math.min(Math.abs(b.left - a.right), Math.abs(a.left - b.right)) > LEAST_GAP * small) return "apart";
    const rise = a.bottom - DESCENT * a.height - (b.bottom - DESCENT * b.height);
    if (Math.abs(rise) < LEAST_RISE * tall) return "";
    const digits = /\d/.test(left) && /[\d+\u2212-]/.test(right);
    const raised = rise > 0 && b.height <= a.height;  // not the end of a lowered text
    if (raised && digits && !link) return "raised";
    return digits || (raised && /[\p{L}\p{N}]/u.test(left) && /[\p{L}\p{N}]/u.test(right)) ? "apart" : "";
  };
  const read = (node, style, state) => {
    const raw = node.data;
    if (style.visibility !== "visible" || !raw) return;
    const keeps = /^(pre|break-spaces)/.test(style.whiteSpace) || /preserve/.test(style.whiteSpaceCollapse ?? "");
    let text = keeps ? raw : raw.replace(/[ \t\r\n\f]+/g, " ");
    if (!text.trim() && !runs.length) return;
    if (keeps && state.pre && raw.includes("\n")) pre = state.pre;
    if (!text.trim()) { add(text, runs[runs.length - 1][0]); return; }
    const glued = last && /\S$/.test(runs[runs.length - 1]?.[1] ?? "") && /^\S/.test(text);
    const differs = glued && last.struck !== state.struck;
    const apart = differs ? "apart" : glued ? apartness(node, raw.search(/\S/), node.parentElement?.closest("a[href]")) : "";
    if (apart) text = ` ${text}`;
    [last, crossed] = [{ node, at: raw.trimEnd().length - 1, struck: state.struck }, ""];
    const seen = isSeen(node, style, state);
    const flags = (seen ? 0 : 1) | (state.struck ? 2 : 0) | (state.control ? 4 : 0) | (apart === "raised" ? 8 : 0);
    if (Array.isArray(seen)) {
      const run = [flags, ""];
      run.doubtful = true;
      runs.push(run);
      const before = size;
      run[1] = text.slice(0, Math.max(maxChars - before, 0));
      size += run[1].length;
      if (doubts.length < MOST_DOUBTS) doubts.push([run, node.parentElement, ...seen]);
      else run[0] |= 1;
    } else {
      const run = add(text, flags);
      if (run && seen && !state.inList && buried.length < MOST_BURIED)
        buried.push([runs, run, run[1].length - text.length, text.length, node.parentElement, box, state]);
    }
  };
  // What widgets and list items show besides text: [role, words to recognise it by, what it shows].
  const VALUED = /^(progressbar|meter|slider|spinbutton|scrollbar|separator)$/;
  const NATIVE = { table: "table", progress: "progressbar", meter: "meter", li: "listitem", tr: "row", th: "columnheader" };
  const valueOf = (node, role) => {
    const number = (one) => (one === null || one === "" || Number.isNaN(+one) ? null : +one);
    const plain = !node.hasAttribute("role");
    const native = plain && /^(progress|meter)$/.test(node.localName) || node.type === "range";
    if (plain && node.localName === "progress" && !node.hasAttribute("value")) return "not known";
    const now = native ? number(node.value) : number(node.getAttribute("aria-valuenow"));
    const least = native ? number(node.min ?? 0) ?? 0 : number(node.getAttribute("aria-valuemin"));
    const most = native ? number(node.max === "" ? 100 : node.max) : number(node.getAttribute("aria-valuemax"));
    const words = (node.getAttribute("aria-valuetext") ?? "").trim().slice(0, MOST_VALUE_CHARS);
    const amount = now === null ? "" : most === null ? `${now}` : least ? `${now}, from ${least} to ${most}` : `${now} of ${most}`;
    return words && amount && words !== `${now}` ? `${words} (${amount})` : words || amount;
  };
  const roman = (n) => [[1000, "m"], [900, "cm"], [500, "d"], [400, "cd"], [100, "c"], [90, "xc"], [50, "l"], [40, "xl"],
    [10, "x"], [9, "ix"], [5, "v"], [4, "iv"], [1, "i"]].reduce((made, [worth, sign]) => {
    for (; n >= worth; n -= worth) made += sign;
    return made;
  }, "");
  const letters = (n) => (n > 0 ? letters(Math.floor((n - 1) / 26)) + String.fromCharCode(97 + (n - 1) % 26) : "");
  const ordinal = (type, at) => {
    const made = at < 1 || at > 3999 ? "" : /roman/.test(type) ? roman(at) : /latin|alpha/.test(type) ? letters(at) : "";
    return (/^upper/.test(type) ? made.toUpperCase() : made) || (type === "decimal-leading-zero" && at < 10 ? `0${at}` : `${at}`);
  };
  // The counters of the page's style: for each name the values that hold here, each with the element in which it holds.
  const counters = new Map();
  const countersAt = (name, node) => {
    if (!counters.has(name)) counters.set(name, []);
    const held = counters.get(name);
    while (held.length && !held[held.length - 1].inside.contains(node)) held.pop();
    return held;
  };
  const count = (node, style, inside) => {
    for (const kind of ["counterReset", "counterIncrement", "counterSet"]) {
      for (const [, name, number] of style[kind] === "none" ? [] : style[kind].matchAll(/([^\s]+) (-?\d+)/g)) {
        const held = countersAt(name, node), top = held[held.length - 1];
        if (kind === "counterReset" && top?.inside !== inside || !top) held.push({ inside, value: 0 });
        const value = held[held.length - 1];
        value.value = kind === "counterIncrement" ? value.value + +number : +number;
      }
    }
  };
  const counted = (part, node) => {
    const [, all, name, rest] = /^counter(s?)\(([^,)]+)(.*)\)$/.exec(part) ?? [];
    if (!name) return null;
    const held = countersAt(name.trim(), node).map((one) => one.value);
    const type = /[a-z-]+$/.exec(rest.trim())?.[0] ?? "decimal", between = /"([^"]*)"/.exec(rest)?.[1] ?? "";
    return (all ? held : held.slice(-1)).map((one) => ordinal(type, one)).join(between) || "0";
  };
  const numberOf = (node, style) => {
    if (style.display !== "list-item") return "";
    const list = node.parentElement, down = list?.localName === "ol" && list.reversed;
    const items = () => [...list.children].filter((one) => getComputedStyle(one).display === "list-item").length;
    const first = () => (list?.localName !== "ol" ? 1 : list.hasAttribute("start") ? list.start : down ? items() : 1);
    const at = node.localName === "li" && node.hasAttribute("value") ? node.value : ordinals.get(list) ?? first();
    ordinals.set(list, at + (down ? -1 : 1));
    const type = style.listStyleType;
    if (/^(none|disc|circle|square|disclosure-.*|".*")$/.test(type) || style.listStyleImage !== "none") return "";
    return ordinal(type, at);
  };
  const rowsOf = (node) => {
    const all = +node.getAttribute("aria-rowcount"), here = node.querySelectorAll('tr,[role="row"]').length;
    return all > here ? `${here} of ${all} rows are here; scroll in it to load others` : "";
  };
  const readShown = (node, style, state) => {
    const name = node.localName, given = (node.getAttribute("role") ?? "").trim().split(/\s+/)[0];
    if (name === "input" && (node.type === "password" || !/^(none|)$/.test(style.webkitTextSecurity ?? "")) && node.value
        && secrets.length < MOST_VALUES) secrets.push(node.value);
    const role = given || NATIVE[name] || (name === "input" && node.type === "range" ? "slider" : "");
    const number = role === "listitem" ? numberOf(node, style) : "";
    if (style.visibility !== "visible" || shown.length >= MOST_CELLS) return;
    const words = /^(listitem|row|columnheader)$/.test(role) ? node.textContent.slice(0, 300) : node.getAttribute("aria-label") ?? "";
    if (role === "listitem") shown.push([role, words, state.hidden ? "" : number]);
    else if (role === "row" && ordered) shown.push([role, words, node.getAttribute("aria-rowindex") ?? ""]);
    else if (role === "columnheader" && ordered) shown.push([role, words, (node.getAttribute("aria-sort") ?? "").replace("none", "")]);
    else if (virtual && /^(grid|treegrid|table)$/.test(role)) shown.push([role, words, state.hidden ? "" : rowsOf(node)]);
    else if (VALUED.test(role)) shown.push([role, words, state.hidden ? "" : valueOf(node, role)]);
  };
  // Whether a person can use a control that is not drawn itself: by its label, or because it lies over what is drawn.
  const isDrawn = (node, style, side) => {
    const shows = (one) => one.checkVisibility({ opacityProperty: true, visibilityProperty: true })
      && one.getBoundingClientRect().width >= LEAST_CONTROL_PX;
    const labels = node.labels?.length ? [...node.labels] : [...node.parentElement?.querySelectorAll("label:not([for])") ?? []];
    return /^(checkbox|radio|file)$/.test(node.type) && labels.some(shows)
      || side >= LEAST_CONTROL_PX && style.pointerEvents !== "none" && !(+style.zIndex < 0);
  };
  const boxOf = ({ x, y, width, height }) => [x, y, width, height].map(Math.round).join(",");
  // What stands in fields is no text of the document. Only those that a person cannot see are returned.
  const readField = (node, style, state) => {
    const value = node.localName === "select" ? [...node.selectedOptions].map((one) => one.textContent).join(" ") : node.value;
    const words = [value, node.placeholder].filter(Boolean);
    if (!words.length || unseen.length >= MOST_VALUES) return;
    const ink = rgba(style.webkitTextFillColor), at = node.getBoundingClientRect();
    if (state.hidden || parseFloat(style.fontSize) < LEAST_FONT_PX || at.width < LEAST_SIDE_PX || at.height < LEAST_SIDE_PX
        || at.right + scrollX + state.scrolledX < LEAST_SIDE_PX || at.bottom + scrollY + state.scrolledY < LEAST_SIDE_PX
        || (ink && ink[3] < LEAST_OPACITY) || (state.background && alike(over(ink, state.background), state.background)))
      unseen.push(...words.map((one) => one.slice(0, MOST_VALUE_CHARS)));
  };
  // What a person sees or can do at a place of the text besides the text: [kind, block, characters before it, words].
  const note = (kind, words) => {
    const before = runs.reduce((sum, run) => sum + run[1].replace(/[\s\u200b\u00ad\ufeff]+/g, "").length, 0);
    if (words && notes.length < MOST_NOTES) notes.push([kind, blocks.length, before, words.slice(0, MOST_NOTE_CHARS)]);
  };
  // The words of an element as they are drawn, if that is not the order of the document; else "".
  const drawnOrder = (node, style) => {
    const words = (one) => one.textContent.trim().replace(/\s+/g, " ");
    if (/override/.test(style.unicodeBidi) && style.direction === "rtl" && !node.childElementCount)
      return /[\u0590-\u08ff]/.test(node.textContent) ? "" : [...words(node)].reverse().join("");
    if (!/flex|grid/.test(style.display)) return "";
    const turned = /reverse/.test(style.flexDirection) || [...node.children].some((one) => getComputedStyle(one).order !== "0");
    const parts = turned ? [...node.children].filter(words).map((one) => [one, one.getBoundingClientRect()]) : [];
    const at = ([, a], [, b]) => (b.top >= a.bottom ? -1 : a.top >= b.bottom ? 1 : style.direction === "rtl" ? b.left - a.left : a.left - b.left);
    const [before, now] = [parts, [...parts].sort(at)].map((some) => some.map(([one]) => words(one)).join(" | "));
    return before === now ? "" : now;
  };
  const drawing = (node, own, state) => {
    const { width, height } = node.getBoundingClientRect();
    if (!state.hidden && own.visibility === "visible" && Math.min(width, height) >= LEAST_DRAWING_PX)
      note("canvas", `a drawing of ${Math.round(width)} x ${Math.round(height)} pixels; what it shows cannot be read here`);
  };
  const until = performance.now() + MOST_READ_MS;
  // Whether the styles of the page can add words. Those of frames and shadow trees are not looked at beforehand.
  let adds = true;
  try {
    adds = [...document.styleSheets, ...document.adoptedStyleSheets]
      .some((sheet) => [...sheet.cssRules].some((rule) => /:(before|after)|@import/.test(rule.cssText)));
  } catch { adds = true; }
  const walk = (node, style, state, depth) => {
    if (cut) return;
    if (++nodes > MOST_NODES || depth > MOST_DEPTH || (nodes % 500 === 0 && performance.now() > until)) { cut = true; return; }
    if (node.nodeType === Node.TEXT_NODE) { if (style) read(node, style, state); return; }
    if (node.nodeType !== Node.ELEMENT_NODE) return;
    const name = node.localName;
    if (name === "br") { if (state.pre) { add("\n", runs.length ? runs[runs.length - 1][0] : 0); pre = state.pre; } else flush(true); return; }
    if (name === "iframe" || name === "frame") {
      let inner = null;
      try { inner = node.contentDocument; } catch { inner = null; }
      const own = getComputedStyle(node);
      if (own.display === "none" || own.visibility !== "visible") return;
      partial = adds = true;
      const root = inner?.documentElement;
      if (!root) return;
      flush();
      const to = inherit(node, own, state), at = node.getBoundingClientRect(), inside = inner.defaultView;
      if (painted.length < MOST_PAINTED && !to.hidden) painted.push([node, at, null]);
      const gone = to.hidden || at.width < LEAST_SIDE_PX || at.height < LEAST_SIDE_PX
        || at.right + scrollX + to.scrolledX < LEAST_SIDE_PX || at.bottom + scrollY + to.scrolledY < LEAST_SIDE_PX;
      const scrolled = { scrolledX: (inside?.scrollX ?? 0) - scrollX, scrolledY: (inside?.scrollY ?? 0) - scrollY };
      walk(root, null, { ...start, ...scrolled, hidden: gone, moved: true }, depth + 1);
      flush();
      return;
    }
    const own = getComputedStyle(node);
    if (own.display === "none") return;
    if ((PAINTED.has(name) || SHAPES.has(name)) && painted.length < MOST_PAINTED && !state.hidden && own.visibility === "visible"
        && state.opacity * own.opacity >= LEAST_OPACITY && !(name === "img" && node.complete && !node.naturalWidth)) {
      const shape = SHAPES.has(name) && name !== "image" && name !== "use" ? rgba(own.fill) : null;
      if (!SHAPES.has(name) || shape?.[3] * own.fillOpacity >= LEAST_OPACITY || /^(image|use)$/.test(name))
        painted.push([node, node.getBoundingClientRect(), shape]);
    }
    if (name === "canvas") drawing(node, own, state);
    if (SKIPPED.has(name) && name !== "textarea") return;
    if (own.counterReset !== "none" || own.counterIncrement !== "none" || own.counterSet !== "none") count(node, own, node.parentElement);
    const to = inherit(node, own, state);
    readShown(node, own, to);
    if (/^(input|textarea|select)$/.test(name)) readField(node, own, to);
    const isControl = node.matches(CONTROLS);
    if (isControl || /^(input|textarea|select)$/.test(name) || node.matches(CHOICES)) {
      const at = node.getBoundingClientRect(), left = to.clip ? meet(to.clip, at) : at;
      const on = Math.min(at.right + scrollX + to.scrolledX, at.bottom + scrollY + to.scrolledY);
      const side = Math.min(left.right - left.left, left.bottom - left.top, on);
      const seen = !to.hidden && own.visibility === "visible";
      if (isControl) to.control = seen && side >= LEAST_CONTROL_PX;
      const role = node.getAttribute("role") || ROLES[name] || ROLES[node.type]
        || (name === "select" ? (node.multiple || node.size > 1 ? "listbox" : "combobox") : node.list ? "combobox" : "textbox");
      if (!(seen && side >= LEAST_SIDE_PX) && node.ownerDocument === document && gone.length < MOST_DOUBTS && !isDrawn(node, own, side))
        gone.push(`${role},${boxOf(at)}`);
    }
    if (name === "textarea") return;
    const scrolls = node !== document.body && node !== document.documentElement && !to.hidden && /auto|scroll/.test(own.overflowY)
      && node.clientHeight >= LEAST_SCROLLER_PX && node.scrollHeight > node.clientHeight + 1 && scrollers.length < MOST_SCROLLERS;
    const isCell = own.display === "table-cell";
    const isBlock = !INLINE.test(own.display) || name === "option" || scrolls;
    if (name === "svg") to.inDrawing = true;
    if (name === "foreignObject") to.inDrawing = false;
    if (name === "tspan" && ["x", "y", "dy"].some((one) => parseFloat(node.getAttribute(one)))) flush(true);
    if (name === "option" || name === "optgroup") to.inList = true;
    if (isBlock && !isCell) flush();
    if (isCell) {
      if (runs.length) add("\t", runs[runs.length - 1][0]);
      if (spans && cells.length < MOST_CELLS)
        cells.push([node.rowSpan ?? 1, node.colSpan ?? 1, node.textContent.slice(0, 300)]);
    }
    if (!isBlock && node.tabIndex >= 0 && node.hasAttribute("tabindex") && !node.hasAttribute("role")) note("focus", "-");
    if (name === "label" && node.control && !node.control.getClientRects().length) note("focus", node.control.checked ? "checked" : "-");
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
    if (node.isContentEditable && !node.parentElement?.isContentEditable && !to.hidden && editors.length < MOST_VALUES) {
      const at = (node === node.ownerDocument.documentElement ? node.ownerDocument.body : node).getBoundingClientRect();
      editors.push((node.ownerDocument === document ? "" : "f") + boxOf(at));
      const bare = !node.childElementCount && !node.textContent.trim() && !node.hasAttribute("role") && !node.ariaLabel;
      if (bare && at.height) note("editor", `w${[...document.querySelectorAll("[contenteditable]")].indexOf(node)}`);
    }
    const drawn = drawnOrder(node, own);
    if (drawn && !to.hidden) note("drawn", drawn);
    const first = blocks.length, rtl = own.direction === "rtl", crosses = (side) => {
      if (own.display.startsWith("inline-") || own.display === "ruby-text") crossed ||= "box";
      if (parseFloat(own[`border${side}Width`]) && rgba(own[`border${side}Color`])?.[3]) crossed = "border";
    };
    if (!isBlock) crosses(rtl ? "Right" : "Left");
    if (node.shadowRoot) partial = adds = true;
    if (adds) readAdded(node, "::before", to);
    const children = name === "slot" && node.assignedNodes().length ? node.assignedNodes()
      : (node.shadowRoot ?? node).childNodes;
    for (const child of children) walk(child, own, to, depth + 1);
    if (adds) readAdded(node, "::after", to);
    if (!isBlock) crosses(rtl ? "Left" : "Right");
    if (isBlock && !isCell) { flush(); [heading, pre] = before; }
    if (node.title && !to.control && !to.hidden && !UNTITLED.test(name) && !node.hasAttribute("role")
        && !node.textContent.includes(node.title)) note(node.textContent.trim() ? "title" : "tip", node.title);
    if (name === "input" && node.type === "file") note("files", [...node.files].map((one) => one.name).join(", "));
    if (scrolls && blocks.length > first) scrollers.push([first, blocks.length]);
  };
  const start = { opacity: 1, clip: null, absolute: null, background: [255, 255, 255, 1], hidden: false, struck: false,
    heading: false, pre: 0, inPre: false, inList: false, scrolledX: 0, scrolledY: 0, absoluteX: 0, absoluteY: 0,
    moved: false, placed: null, context: null, under: null, blur: 0, clipped: false,
    clippedInk: null, control: false, inDrawing: false };
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
  // Text lies under a box with an opaque background if the box is positioned and the text is not, or if the text has a
  // negative z-index. Boxes that stay in the window while the page scrolls cover different text at each time.
  const lies = ([element, at, above], parent, box, { placed, under }) => {
    if (Math.min(at.right, box.right) - Math.max(at.left, box.left) < MOSTLY * box.width
        || Math.min(at.bottom, box.bottom) - Math.max(at.top, box.top) < MOSTLY * box.height) return false;
    if (element.ownerDocument !== parent.ownerDocument) return false;  // a frame has coordinates of its own
    if (!under) return above && placed !== element && (!placed || placed.contains(element));
    const [context, root] = under;
    return element !== context && (context ?? document.documentElement).contains(element) && !root.contains(element);
  };
  const bands = new Map(), tall = [], bandOf = (y) => Math.floor(y / BAND_PX);
  for (const cover of covers.filter(([, , , low]) => !low)) {
    const first = bandOf(cover[1].top), last = bandOf(cover[1].bottom);
    if (last - first > MOST_BANDS) tall.push(cover);
    else for (let at = first; at <= last; at++) bands.set(at, [...(bands.get(at) ?? []), cover]);
  }
  for (const [of, run, begin, length, parent, box, state] of buried.reverse()) {
    const near = [...(bands.get(bandOf((box.top + box.bottom) / 2)) ?? []), ...tall];
    if (begin < 0 || !near.some((cover) => lies(cover, parent, box, state))) continue;
    const [flags, text] = run;
    run[1] = text.slice(0, begin);
    of.splice(of.indexOf(run) + 1, 0, [flags | 1, text.slice(begin, begin + length)], [flags, text.slice(begin + length)]);
  }
  return { blocks, cells, cut, partial, unseen, shown, secrets, scrollers, notes, editors, gone };
}
