"use strict";
// The table is complete without this script; it folds the reasons, filters and sorts.
const table = document.getElementById("rows");
const bodies = [...table.tBodies];
const filter = document.getElementById("filter");
const kinds = [...document.querySelectorAll("button[data-kind]")];
const shown = document.getElementById("shown");
const none = document.getElementById("none");

function fold(body, open) {
  body.querySelector(".why").hidden = !open;
  body.querySelector(".open").setAttribute("aria-expanded", open);
}

function narrow() {
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  const wanted = new Set(kinds.filter((chip) => chip.getAttribute("aria-pressed") === "true").map((chip) => chip.dataset.kind));
  let count = 0;
  for (const body of bodies) {
    const fits = wanted.has(body.dataset.kind) && words.every((word) => body.dataset.text.includes(word));
    body.hidden = !fits;
    count += fits;
  }
  shown.textContent = count === bodies.length ? `${count} shown` : `${count} of ${bodies.length} shown`;
  none.hidden = count > 0;
}

function sort(button) {
  const header = button.closest("th");
  const rising = header.getAttribute("aria-sort") !== "ascending";
  for (const other of table.tHead.querySelectorAll("th")) other.setAttribute("aria-sort", "none");
  header.setAttribute("aria-sort", rising ? "ascending" : "descending");
  const key = button.dataset.sort;
  const order = button.dataset.type === "number" ? (a, b) => a - b : (a, b) => a.localeCompare(b);
  bodies.sort((a, b) => (rising ? 1 : -1) * order(a.dataset[key], b.dataset[key]));
  table.append(...bodies);
}

document.body.classList.add("scripted");
document.querySelector(".tools").hidden = false;
for (const body of bodies) {
  fold(body, false);
  body.querySelector(".head").addEventListener("click", () => fold(body, body.querySelector(".why").hidden));
}
for (const button of table.tHead.querySelectorAll("button")) button.addEventListener("click", () => sort(button));
for (const chip of kinds) {
  chip.addEventListener("click", () => {
    chip.setAttribute("aria-pressed", chip.getAttribute("aria-pressed") !== "true");
    narrow();
  });
}
filter.addEventListener("input", narrow);
narrow();
