"use strict";
// Without this script the page lists the first entries; with it they open, are searched, sorted, marked and exported.
const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const list = $("entries");
const column = $("column");
const chips = [...document.querySelectorAll("button[data-kind], button[data-verdict]")];
const STEP = 20, ROWS = 50, PRINTED = 100;
const store = `likely audit ${data.name}`;
let shown = [];
let drawn = 0;

// Everything from the data enters the page as text.
function make(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in node) node[name] = value;
    else node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== ""));
  return node;
}

for (const entry of data.entries) {
  for (const row of entry.rows) {
    if (entry.count === 1) Object.assign(row, { name: entry.who, headline: entry.headline, long: entry.long });
  }
  entry.columns = new Set(entry.rows.flatMap((row) => (row.reasons || []).map((reason) => reason[0])));
  entry.row = entry.rows.length ? entry.rows[0].row : 0;
  const parts = entry.rows.map((row) => [row.name, row.headline, ...(row.reasons || []).flat(), ...(row.cells || []).map((cell) => cell[1])].join(" "));
  entry.text = [entry.word, entry.verdict, entry.headline, entry.who, ...parts].join(" ").toLowerCase();
}

// Marks: what somebody looked at and found fine. A mark is kept in the browser until it is saved to a file.
const marks = new Map();
const markOf = (entry, row) => (row ? { ...(row.mark || { kind: entry.kind, key: row.key }), what: row.headline || entry.headline }
  : entry.group ? { kind: entry.kind, group: entry.group, what: entry.headline } : markOf(entry, entry.rows[0]));
const nameOf = (mark) => `${mark.kind} ${mark.group || mark.key}`;
const isFine = (entry, row) => marks.has(nameOf(markOf(entry, null))) || (row ? marks.has(nameOf(markOf(entry, row))) : false);
try {
  for (const mark of JSON.parse(localStorage.getItem(store) || "[]")) marks.set(nameOf(mark), mark);
} catch { /* some browsers keep nothing for files */ }

function remember() {
  try { localStorage.setItem(store, JSON.stringify([...marks.values()])); } catch { /* the file can still be saved */ }
  $("marked").hidden = marks.size === 0;
  $("marked-count").textContent = marks.size === 1 ? "One finding is marked as fine." : `${marks.size} findings are marked as fine.`;
}

function fineButton(entry, row, host) {
  const button = make("button", { type: "button", className: "fine" });
  const tell = () => {
    const fine = isFine(entry, row);
    button.setAttribute("aria-pressed", fine);
    button.textContent = fine ? "✓ fine" : "Mark as fine";
    button.setAttribute("aria-label", `${button.textContent}: ${row ? row.name : entry.who}, ${entry.headline}`);
    host.classList.toggle("is-fine", fine);
  };
  button.addEventListener("click", () => {
    const mark = markOf(entry, row);
    if (!marks.delete(nameOf(mark))) marks.set(nameOf(mark), mark);
    remember();
    tell();
  });
  tell();
  return button;
}

function details(row) {
  const box = make("div", { className: "why-box" });
  const why = make("dl", { className: "reasons" });
  const several = (row.reasons || []).filter((reason) => reason[3]).length > 1; // the bar of a single reason would be full
  for (const [what, value, expected, share] of row.reasons || []) {
    const bar = share && several ? make("span", { className: "bar", ariaHidden: "true" }, make("i")) : null;
    if (bar) bar.firstChild.style.width = `${100 * share}%`;
    why.append(make("div", {}, make("dt", {}, what), make("dd", {}, make("b", {}, value), " ", make("span", { className: "quiet" }, expected), bar)));
  }
  box.append(make("div", { className: "reasons-box" }, make("p", { className: "quiet" }, row.long || ""), why));
  if (row.cells && row.cells.length) {
    const compared = row.cells.some((cell) => cell[2]);
    const body = make("tbody");
    for (const [name, value, usual, unusual] of row.cells) {
      const line = make("tr", { className: unusual ? "unusual" : "" }, make("th", { scope: "row" }, name), make("td", {}, value));
      if (compared) line.append(make("td", {}, usual), make("td", { className: "flag" }, unusual ? "differs" : ""));
      body.append(line);
    }
    const heads = compared ? ["column", "here", "similar rows", ""] : ["column", "here"];
    const head = make("thead", {}, make("tr", {}, ...heads.map((name) => (name ? make("th", { scope: "col" }, name) : make("td")))));
    box.append(make("div", { className: "scroll", tabIndex: 0, role: "group", "aria-label": `values of ${row.name}` }, make("table", { className: "cells" }, head, body)));
  }
  return box;
}

// A button that opens what `build` makes, once it is asked for.
function fold(button, host, build) {
  let inside = null;
  button.setAttribute("aria-expanded", "false");
  button.addEventListener("click", () => {
    const open = button.getAttribute("aria-expanded") !== "true";
    button.setAttribute("aria-expanded", open);
    if (!inside) host.append(inside = build());
    inside.hidden = !open;
  });
}

function members(entry) {
  const rows = make("ul", { className: "members" });
  const more = make("button", { type: "button", className: "button" });
  const rest = make("p", { className: "quiet" });
  const draw = () => {
    const from = rows.children.length;
    for (const row of entry.rows.slice(from, from + ROWS)) rows.append(member(entry, row));
    const left = entry.count - rows.children.length;
    const named = rows.children.length < entry.rows.length;
    more.hidden = !named;
    rest.hidden = named || left === 0;
    rest.textContent = `${left.toLocaleString("en")} more are in ${data.scores}.`;
    more.textContent = `Show ${Math.min(left, ROWS)} more of ${left.toLocaleString("en")}`;
  };
  more.addEventListener("click", () => {
    const from = rows.children.length;
    draw();
    const next = rows.children[from]?.querySelector("button");
    if (next) next.focus();
  });
  draw();
  return make("div", { className: "why" }, make("p", { className: "quiet" }, entry.long), rows, more, rest);
}

function member(entry, row) {
  const item = make("li", { className: "member" });
  const open = make("button", { type: "button", className: "open" }, make("span", { className: "whose" }, row.name), " ", row.headline || "");
  const hasMore = (row.reasons && row.reasons.length) || (row.cells && row.cells.length);
  item.append(make("div", { className: "head" }, open, fineButton(entry, row, item)));
  if (hasMore) fold(open, item, () => details(row));
  else open.replaceWith(make("span", { className: "open" }, ...open.childNodes));
  return item;
}

function line(entry) {
  const item = make("li", { className: `entry ${entry.verdict}` });
  item.dataset.row = entry.row;
  item.dataset.kind = entry.kind;
  const open = make("button", { type: "button", className: "open headline" }, make("span", {}, entry.headline));
  const head = make("div", { className: "head" }, make("span", { className: `chip ${entry.colour}` }, entry.word),
    open, make("span", { className: "whose" }, entry.who), make("span", { className: `sure ${entry.colour}`, title: entry.long }, entry.short),
    entry.group || entry.count === 1 ? fineButton(entry, null, item) : "");
  item.append(head);
  fold(open, item, () => (entry.count === 1 ? make("div", { className: "why" }, details(entry.rows[0])) : members(entry)));
  return item;
}

function draw(count) {
  list.append(...shown.slice(drawn, drawn + count).map(line));
  drawn = Math.min(drawn + count, shown.length);
  const left = shown.length - drawn;
  $("more").hidden = left === 0;
  $("more").textContent = `Show ${Math.min(left, 50)} more of ${left.toLocaleString("en")}`;
}

function narrow() {
  const words = $("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const pressed = (name) => new Set(chips.filter((chip) => chip.dataset[name] && chip.getAttribute("aria-pressed") === "true").map((chip) => chip.dataset[name]));
  const kinds = pressed("kind"), verdicts = pressed("verdict"), wanted = column ? column.value : "";
  const key = $("sort").value;
  shown = data.entries.filter((entry) => (!kinds.size || kinds.has(entry.kind)) && (!verdicts.size || verdicts.has(entry.verdict))
    && (!wanted || entry.columns.has(wanted)) && words.every((word) => entry.text.includes(word)));
  shown.sort((a, b) => (key === "row" ? a.row - b.row : b[key] - a[key]));
  list.replaceChildren();
  drawn = 0;
  draw(STEP);
  const all = data.entries.length;
  const some = shown.length === all ? "" : `${shown.length.toLocaleString("en")} of `;
  $("shown").textContent = `${some}${all.toLocaleString("en")} ${all === 1 ? "finding" : "findings"}`;
  $("none").hidden = shown.length > 0;
}

function save(name, type, parts) {
  const link = make("a", { href: URL.createObjectURL(new Blob(parts, { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// What is shown, a line per row.
const COLUMNS = ["rank", "row", "name", "kind", "verdict", "certainty", "what"];
const table = () => shown.flatMap((entry, place) => entry.rows.map((row) =>
  [place + 1, row.row, row.name, entry.word, entry.verdict, row.score ?? entry.score, row.headline || entry.headline]));

function csv() {
  // No cell may be a formula to a spreadsheet.
  const cell = (value) => {
    const text = typeof value === "string" && /^\s*[=+\-@\t\r\n]/.test(value) ? `'${value}` : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [COLUMNS, ...table()].map((row) => row.map(cell).join(",")).join("\n") + "\n";
}

// The smallest Parquet: one row group, one plain uncompressed page per column, a footer in Thrift's compact protocol.
class Thrift {
  constructor() { this.bytes = []; this.last = 0; }
  varint(value) {
    for (let left = BigInt(value); ; left >>= 7n) {
      if (left < 128n) { this.bytes.push(Number(left)); return this; }
      this.bytes.push(Number(left & 127n) | 128);
    }
  }
  zigzag(value) { return this.varint(2n * BigInt(value)); }
  text(value) { const own = new TextEncoder().encode(value); this.varint(own.length); for (const byte of own) this.bytes.push(byte); return this; }
  field(id, type) { this.bytes.push(((id - this.last) << 4) | type); this.last = id; return this; }
  i32(id, value) { return this.field(id, 5).zigzag(value); }
  i64(id, value) { return this.field(id, 6).zigzag(value); }
  string(id, value) { return this.field(id, 8).text(value); }
  struct(id, fill) { this.field(id, 12); return this.inside(fill); }
  inside(fill) { const before = this.last; this.last = 0; fill(this); this.bytes.push(0); this.last = before; return this; }
  list(id, type, items, each) {
    this.field(id, 9);
    if (items.length < 15) this.bytes.push((items.length << 4) | type);
    else { this.bytes.push(0xf0 | type); this.varint(items.length); }
    for (const item of items) each(this, item);
    return this;
  }
}

function parquet() {
  const rows = table();
  const chunks = [new TextEncoder().encode("PAR1")];
  let offset = 4;
  const put = (bytes) => { chunks.push(bytes); offset += bytes.length; };
  const columns = COLUMNS.map((name, j) => {
    const values = rows.map((row) => row[j]);
    const type = ["rank", "row"].includes(name) ? 2 : name === "certainty" ? 5 : 6; // INT64, DOUBLE, BYTE_ARRAY
    let page;
    if (type === 6) {
      const encoder = new TextEncoder();
      const texts = values.map((value) => encoder.encode(String(value)));
      page = new Uint8Array(texts.reduce((sum, text) => sum + 4 + text.length, 0));
      const view = new DataView(page.buffer);
      let at = 0;
      for (const text of texts) {
        view.setUint32(at, text.length, true);
        page.set(text, at + 4);
        at += 4 + text.length;
      }
    } else {
      page = new Uint8Array(8 * values.length);
      const view = new DataView(page.buffer);
      values.forEach((value, i) => (type === 2 ? view.setBigInt64(8 * i, BigInt(value), true) : view.setFloat64(8 * i, value ?? NaN, true)));
    }
    const header = new Thrift().inside((t) => t.i32(1, 0).i32(2, page.length).i32(3, page.length)
      .struct(5, (d) => d.i32(1, rows.length).i32(2, 0).i32(3, 3).i32(4, 3)));
    const start = offset;
    put(new Uint8Array(header.bytes));
    put(page);
    return { name, type, start, size: offset - start };
  });
  const footer = new Thrift().inside((t) => t.i32(1, 1)
    .list(2, 12, [null, ...columns], (s, own) => s.inside((e) => (own
      ? (e.i32(1, own.type).i32(3, 0).string(4, own.name), own.type === 6 ? e.i32(6, 0) : e)
      : e.string(4, "schema").i32(5, columns.length))))
    .i64(3, rows.length)
    .list(4, 12, [0], (s) => s.inside((g) => g.list(1, 12, columns, (c, own) => c.inside((k) => k.i64(2, own.start)
      .struct(3, (m) => m.i32(1, own.type).list(2, 5, [0], (l) => l.zigzag(0)).list(3, 8, [own.name], (l) => l.text(own.name))
        .i32(4, 0).i64(5, rows.length).i64(6, own.size).i64(7, own.size).i64(9, own.start))))
      .i64(2, columns.reduce((sum, own) => sum + own.size, 0)).i64(3, rows.length)))
    .string(6, "likely"));
  put(new Uint8Array(footer.bytes));
  const length = new Uint8Array(4);
  new DataView(length.buffer).setUint32(0, footer.bytes.length, true);
  chunks.push(length, new TextEncoder().encode("PAR1"));
  return chunks;
}

document.body.classList.add("scripted");
document.querySelector(".tools").hidden = false;
for (const chip of chips) {
  chip.addEventListener("click", () => {
    chip.setAttribute("aria-pressed", chip.getAttribute("aria-pressed") !== "true");
    narrow();
  });
}
$("filter").addEventListener("input", narrow);
$("sort").addEventListener("change", narrow);
if (column) column.addEventListener("change", narrow);
$("more").addEventListener("click", () => {
  const from = drawn;
  draw(50);
  list.children[from]?.querySelector("button").focus();
});
document.querySelector('[data-export="csv"]').addEventListener("click", () => save("findings.csv", "text/csv", [csv()]));
document.querySelector('[data-export="parquet"]').addEventListener("click", () => save("findings.parquet", "application/octet-stream", parquet()));
$("keep").addEventListener("click", () => {
  const fine = [...data.known, ...marks.values()];
  save("accepted.json", "application/json", [JSON.stringify({ likely: "findings marked as fine", version: data.version, fine }, null, 1)]);
});
$("forget").addEventListener("click", () => { marks.clear(); remember(); narrow(); });
// On paper nothing unfolds: a hundred findings are printed, and how many there are besides.
window.addEventListener("beforeprint", () => {
  draw(Math.max(0, PRINTED - drawn));
  if ($("rest")) $("rest").textContent = `${(shown.length - drawn).toLocaleString("en")} more are in summary.json.`;
  if ($("rest")) $("rest").hidden = shown.length === drawn;
});
remember();
narrow();
