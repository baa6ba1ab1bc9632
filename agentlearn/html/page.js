// Make tables sortable: each heading gets a button. Without scripts the tables stay as they are.
"use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  if (!body || body.rows.length < 3) continue;
  const heads = [...table.tHead.rows[0].cells];
  const first = [...body.rows];
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
