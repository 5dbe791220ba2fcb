"use strict";
document.documentElement.classList.add("scripted");

const theme = document.getElementById("theme");
const dark = () => {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
};
const show = () => theme.setAttribute("aria-pressed", String(dark()));
theme.addEventListener("click", () => {
  document.documentElement.dataset.theme = dark() ? "light" : "dark";
  show();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
show();

const status = document.getElementById("status");
for (const table of document.querySelectorAll("table.sortable")) {
  const headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => {
      const down = heading.getAttribute("aria-sort") === "ascending";
      for (const other of headings) other.removeAttribute("aria-sort");
      heading.setAttribute("aria-sort", down ? "descending" : "ascending");
      sortRows(table.tBodies[0], column, down);
      status.textContent = `Sorted by ${button.textContent}, ${down ? "descending" : "ascending"}.`;
    });
  });
}

function sortRows(body, column, down) {
  const key = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
  const missing = (text) => text === "" || text === "-";
  const compare = (first, second) => {
    const a = key(first), b = key(second);
    if (missing(a) || missing(b)) return missing(a) - missing(b); // without a value always last
    const order = isNaN(a) || isNaN(b) ? a.localeCompare(b, undefined, { numeric: true }) : a - b;
    return down ? -order : order;
  };
  body.append(...[...body.rows].sort(compare));
}
