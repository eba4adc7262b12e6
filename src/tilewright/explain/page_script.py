"""The script of a kernel's page: links between lines, facts, and tile blocks."""

SCRIPT = """\
"use strict";
const data = JSON.parse(document.getElementById("page-data").textContent);
const find = (id) => document.getElementById(id);
const levels = find("levels");
const rows = [...levels.querySelectorAll(".row")];
const byLink = new Map();
for (const part of document.querySelectorAll("[data-links]")) {
  for (const link of part.dataset.links.split(" ")) {
    if (!byLink.has(link)) byLink.set(link, new Set());
    byLink.get(link).add(part);
  }
}
const toLine = new Map();
for (const anchor of document.querySelectorAll(".tokens a")) {
  const row = find(anchor.getAttribute("href").slice(1));
  if (!toLine.has(row)) toLine.set(row, []);
  toLine.get(row).push(anchor);
}
let shown = null;
let pinned = null;
let marked = [];

function same(row) {
  const found = new Set([row]);
  for (const link of (row.dataset.links || "").split(" ").filter(Boolean)) {
    byLink.get(link).forEach((part) => found.add(part));
  }
  return found;
}

function mark(part, name) {
  part.classList.add(name);
  marked.push([part, name]);
}

function show(row) {
  if (row === shown) return;
  marked.forEach(([part, name]) => part.classList.remove(name));
  marked = [];
  shown = row;
  if (!row) { tell(null, []); return; }
  const all = [...same(row)];
  for (const part of all) {
    mark(part, "lit");
    (toLine.get(part) || []).forEach((anchor) => mark(anchor, "lit"));
  }
  mark(row, "here");
  const lines = all.filter((part) => part.classList.contains("row"));
  for (const level of levels.children) {
    const first = lines.filter((line) => level.contains(line)).sort((a, b) => a.offsetTop - b.offsetTop)[0];
    if (first && !level.contains(row)) reveal(first);
  }
  tell(row, lines);
}

function reveal(row) {
  const box = row.parentElement;
  const top = row.offsetTop;
  if (top < box.scrollTop + 8 || top + row.offsetHeight > box.scrollTop + box.clientHeight - 8) {
    box.scrollTop = top - box.clientHeight / 2;
  }
}

function pin(row) {
  if (pinned) { pinned.classList.remove("pinned"); pinned.setAttribute("aria-selected", "false"); }
  pinned = row;
  if (row) { row.classList.add("pinned"); row.setAttribute("aria-selected", "true"); }
  show(row);
}

function make(tag, text, name) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (name) made.className = name;
  return made;
}

const chosen = find("analysis");
const wanted = () => !chosen || chosen.value === "all" ? data.analyses : [chosen.value];

function factsOf(row) {
  const [level, line] = [row.parentElement.dataset.level, row.id.slice(row.parentElement.dataset.level.length + 1)];
  const facts = data.facts[level];
  if (!facts) return null;
  return wanted().flatMap((name) => (facts[name][line] || []).map((remark) => [name, remark]));
}

function tell(row, lines) {
  const panel = find("here");
  if (!panel) return;
  panel.replaceChildren();
  if (!row) {
    panel.append(make("h3", "Facts at a line"), make("p", "Point at a line, or go to it with the keyboard.", "faint"));
    return;
  }
  const number = (line) => line.id.slice(line.parentElement.dataset.level.length + 1);
  panel.append(make("h3", `Facts at line ${number(row)} of ${row.parentElement.getAttribute("aria-label")}`));
  let count = 0;
  const ordered = rows.filter((line) => lines.includes(line));
  for (const line of ordered) {
    const facts = factsOf(line);
    if (!facts || !facts.length) continue;
    count += facts.length;
    panel.append(make("h4", `${line.parentElement.getAttribute("aria-label")}, line ${number(line)}`));
    const list = make("ul");
    for (const [name, remark] of facts) {
      const item = make("li");
      item.append(make("span", `${name}  `, "faint"), make("code", remark));
      list.append(item);
    }
    panel.append(list);
  }
  if (!count) panel.append(make("p", "Nothing is found here.", "faint"));
}

function list() {
  const body = find("remarks");
  body.replaceChildren();
  const level = find("remark-level").value;
  const facts = data.facts[level];
  const found = wanted().flatMap((name) => Object.entries(facts[name]).map(([line, remarks]) => [Number(line), name, remarks]));
  found.sort((a, b) => a[0] - b[0]);
  for (const [line, name, remarks] of found) {
    const row = make("tr");
    const anchor = make("a", String(line));
    anchor.href = `#${level}-${line}`;
    const place = make("td");
    place.append(anchor);
    const words = make("td");
    remarks.forEach((remark) => words.append(make("code", remark), make("br")));
    row.append(place, make("td", name, "faint"), words);
    body.append(row);
  }
}

levels.addEventListener("mouseover", (event) => {
  const row = event.target.closest(".row");
  if (row && !pinned) show(row);
});
levels.addEventListener("mouseleave", () => { if (!pinned) show(null); });
levels.addEventListener("focusin", (event) => {
  const row = event.target.closest(".row");
  if (!row) return;
  for (const other of row.parentElement.querySelectorAll('.row[tabindex="0"]')) other.tabIndex = -1;
  row.tabIndex = 0;
  if (!pinned) show(row);
});
levels.addEventListener("click", (event) => {
  const row = event.target.closest(".row");
  if (row && getSelection().isCollapsed) pin(row === pinned ? null : row);
});

const steps = {ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20, Home: -1e9, End: 1e9};
levels.addEventListener("keydown", (event) => {
  const row = event.target.closest(".row");
  if (!row || event.ctrlKey || event.altKey || event.metaKey) return;
  const key = event.key;
  if (key in steps) {
    const all = [...row.parentElement.children];
    const at = Math.min(Math.max(all.indexOf(row) + steps[key], 0), all.length - 1);
    all[at].focus();
  } else if (key === "ArrowLeft" || key === "ArrowRight") {
    const open = [...levels.children].filter((level) => !level.hidden);
    const at = open.findIndex((level) => level.contains(row)) + (key === "ArrowRight" ? 1 : -1);
    if (at < 0 || at >= open.length) return;
    const twins = [...same(row)].filter((part) => open[at].contains(part));
    (twins[0] || open[at].querySelector('.row[tabindex="0"]')).focus();
  } else if (key === "Enter" || key === " ") {
    pin(row === pinned ? null : row);
  } else {
    return;
  }
  event.preventDefault();
});
addEventListener("keydown", (event) => { if (event.key === "Escape") pin(null); });

for (const box of document.querySelectorAll("input[data-shows]")) {
  box.addEventListener("change", () => { find(box.dataset.shows).hidden = !box.checked; });
}
find("wrap").addEventListener("change", (event) => levels.classList.toggle("wraps", event.target.checked));
if (chosen) chosen.addEventListener("change", () => {
  const row = shown;
  shown = null;
  show(row);
  list();
});
if (find("remark-level")) find("remark-level").addEventListener("change", list);

for (const [row, anchors] of toLine) {
  for (const anchor of anchors) {
    const point = () => { if (!pinned) { show(row); reveal(row); } };
    anchor.addEventListener("mouseenter", point);
    anchor.addEventListener("focus", point);
  }
}
document.addEventListener("click", (event) => {
  const anchor = event.target.closest('a[href^="#"]');
  const row = anchor && find(anchor.getAttribute("href").slice(1));
  if (!row || !row.classList.contains("row")) return;
  event.preventDefault();
  follow(row);
});
function follow(row) {
  const level = row.closest(".level");
  if (level.hidden) {
    level.hidden = false;
    document.querySelector(`input[data-shows="${level.id}"]`).checked = true;
  }
  pin(row);
  reveal(row);
  row.focus({preventScroll: true});
  levels.scrollIntoView({block: "nearest"});
}

const slider = find("block");
if (slider) {
  const select = (number) => {
    document.querySelectorAll("rect.on").forEach((rect) => rect.classList.remove("on"));
    document.querySelectorAll(`rect[data-block="${number}"]`).forEach((rect) => {
      rect.classList.add("on");
      rect.parentElement.append(rect);
    });
    const block = data.footprints.blocks[number];
    find("block-name").textContent = `(${block.join(", ")})`;
    slider.setAttribute("aria-valuetext", `tile block ${block.join(", ")}`);
    const touched = find("touched");
    touched.replaceChildren();
    for (const [kind, line, words] of data.footprints.touched[number]) {
      const item = make("li");
      const anchor = make("a", `line ${line}`);
      anchor.href = `#${data.footprints.level}-${line}`;
      item.append(make("span", undefined, `key ${kind}`), anchor, make("code", `  ${words}`));
      touched.append(item);
    }
  };
  slider.addEventListener("input", () => select(Number(slider.value)));
  find("drawings").addEventListener("click", (event) => {
    const rect = event.target.closest("rect[data-block]");
    if (rect) { slider.value = rect.dataset.block; select(Number(slider.value)); }
  });
  select(Number(slider.value));
}

tell(null, []);
if (find("remarks")) list();
for (const level of levels.children) {
  const first = level.querySelector(".row[data-links]");
  (first || level.querySelector(".row")).tabIndex = 0;
  if (first && level.dataset.source !== undefined) reveal(first);
}
const target = location.hash && find(location.hash.slice(1));
if (target && target.classList.contains("row")) follow(target);
"""
