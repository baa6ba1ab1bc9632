// Make tables sortable, and give those with columns to choose by a filter. Without scripts the tables stay as they are.
"use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  if (!body || body.rows.length < 3) continue;
  const heads = [...table.tHead.rows[0].cells];
  const first = [...body.rows];
  addFilters(table, heads, first);
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const was = head.getAttribute("aria-sort");
      const numeric = head.classList.contains("num");
      const order = numeric ? ["descending", "ascending", null] : ["ascending", "descending", null];
      const next = order[(order.indexOf(was) + 1) % 3];
      for (const other of heads) other.removeAttribute("aria-sort");
      if (next) head.setAttribute("aria-sort", next);
      body.append(...(next ? sorted(first, column, numeric, next === "descending" ? -1 : 1) : first));
    });
  });
}

// Rows without a number come last in both directions; equal rows keep their order.
function sorted(rows, column, numeric, sign) {
  const key = (row) => {
    const cell = row.cells[column];
    const text = cell.dataset.value ?? cell.textContent;
    return numeric ? parseFloat(text.replace("\u2212", "-").replace(/,/g, "")) : text;
  };
  const compare = (a, b) => {
    if (!numeric) return sign * a.localeCompare(b, undefined, { numeric: true });
    if (Number.isNaN(a) || Number.isNaN(b)) return Number.isNaN(a) - Number.isNaN(b);
    return sign * (a - b);
  };
  return rows.map((row) => [key(row), row]).sort((a, b) => compare(a[0], b[0])).map((pair) => pair[1]);
}

// Above the table: a list of choices for each such column, a search for a text, and the number of rows left.
function addFilters(table, heads, rows) {
  const chosen = heads.map((head, column) => [head, column]).filter(([head]) => head.classList.contains("choices"));
  if (!chosen.length) return;
  const bar = made("div", "filters"), count = made("output"), search = made("input");
  const lists = chosen.map(([head, column]) => {
    const name = head.textContent;
    const texts = new Set(rows.map((row) => textOf(row, column)));
    const list = made("select");
    list.append(new Option(`any ${name.toLowerCase()}`, ""));
    for (const text of [...texts].sort((a, b) => a.localeCompare(b, undefined, { numeric: true }))) {
      list.append(new Option(text, `=${text}`));
    }
    bar.append(labelled(name, list));
    return [list, column];
  });
  search.type = "search";
  bar.append(labelled("Text", search), count);
  const words = rows.map((row) => row.textContent.toLowerCase());
  const apply = () => {
    const wanted = search.value.trim().toLowerCase();
    let left = 0;
    rows.forEach((row, n) => {
      const fits = lists.every(([list, column]) => !list.value || list.value === `=${textOf(row, column)}`);
      row.hidden = !(fits && words[n].includes(wanted));
      left += row.hidden ? 0 : 1;
    });
    count.textContent = `${left.toLocaleString("en")} of ${rows.length.toLocaleString("en")}`;
  };
  bar.addEventListener("input", apply);
  apply();
  table.closest("figure").querySelector("figcaption").after(bar);
}

function textOf(row, column) {
  const cell = row.cells[column];
  return (cell.querySelector("bdi") ?? cell).textContent;
}

function made(name, kind) {
  const element = document.createElement(name);
  if (kind) element.className = kind;
  return element;
}

function labelled(name, control) {
  const label = made("label");
  label.append(name, control);
  return label;
}
