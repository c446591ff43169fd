"use strict";
// Sorts tables by a click on a column, and filters long ones by a word. Without it everything is shown.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  if (!body || body.rows.length < 2) continue;
  const value = (row, column) => {
    const text = row.cells[column].textContent.trim();
    const number = parseFloat(text.replace(/^inf$/, "Infinity"));
    return Number.isNaN(number) ? text : number;
  };
  const compare = (a, b) =>
    typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = document.createElement("button");
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const rows = [...body.rows];
      rows.sort((a, b) => compare(value(a, column), value(b, column)) * (up ? 1 : -1));
      body.append(...rows);
    });
  });
  if (body.rows.length < 12) continue;
  const filter = document.createElement("input");
  filter.type = "search";
  filter.placeholder = "filter";
  filter.setAttribute("aria-label", "filter the rows of this table");
  filter.addEventListener("input", () => {
    const word = filter.value.toLowerCase();
    for (const row of body.rows) row.hidden = !row.textContent.toLowerCase().includes(word);
  });
  table.parentElement.before(filter);
}
// A link to something that is folded unfolds it.
const unfold = () => {
  const target = location.hash && document.getElementById(location.hash.slice(1));
  const folded = target && target.closest("details");
  if (folded) folded.open = true;
};
addEventListener("hashchange", unfold);
unfold();
// On paper everything is unfolded.
addEventListener("beforeprint", () => {
  for (const folded of document.querySelectorAll("details")) folded.open = true;
});
