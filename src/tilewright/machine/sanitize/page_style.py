"""The style sheet and the script of the HTML report."""

STYLE = """\
:root {
  color-scheme: light dark;
  --page: #ffffff; --ink: #1c2128; --faint: #5c6672; --line: #d5dae1; --panel: #f6f7f9;
  --bad: #b3261e; --good: #1a7f4b; --link: #0b5cad;
  --one: #1f6fd0; --one-back: #dbe9fb; --two: #b45f06; --two-back: #fbe6cc;
  --clash: #c4122f; --clash-back: #f9c9cf; --lit: #fff3b0;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #14171c; --ink: #e4e8ee; --faint: #98a3b0; --line: #343b45; --panel: #1c2128;
    --bad: #ff8a80; --good: #5fd39a; --link: #79b8ff;
    --one: #6cb0ff; --one-back: #17324f; --two: #f0a85a; --two-back: #46300f;
    --clash: #ff6b81; --clash-back: #5a1824; --lit: #4d4610;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; max-width: 76rem; padding: 1.5rem 1.25rem 4rem; background: var(--page);
  color: var(--ink); font: 15px/1.5 system-ui, "Segoe UI", Roboto, "Liberation Sans", sans-serif;
}
a { color: var(--link); }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; }
h2 { font-size: 1.12rem; margin: 0; line-height: 1.4; }
h3 { font-size: .95rem; margin: 1.25rem 0 .35rem; }
code, pre, .code { font-family: ui-monospace, "DejaVu Sans Mono", Consolas, monospace; font-size: 12.5px; }
.faint { color: var(--faint); }
.verdict { font-weight: 600; }
.verdict.bad, .badge { color: var(--bad); }
.verdict.good { color: var(--good); }
dl.facts { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; margin: .75rem 0; }
dl.facts dt { color: var(--faint); }
dl.facts dd { margin: 0; }
.scroll { overflow-x: auto; }
table.summary { border-collapse: collapse; width: 100%; margin: 1rem 0 2rem; }
table.summary th { text-align: left; color: var(--faint); font-weight: 500; }
table.summary th, table.summary td {
  border-bottom: 1px solid var(--line); padding: .35rem .75rem .35rem 0; vertical-align: top;
}
table.summary td:last-child, table.summary th:last-child { padding-right: 0; }
.nowrap { white-space: nowrap; }
section.finding { border: 1px solid var(--line); border-radius: 8px; padding: 1rem 1.15rem 1.15rem; margin: 0 0 1.5rem; }
section.finding p { margin: .5rem 0; }
.badge { border: 1px solid currentColor; border-radius: 4px; padding: .05rem .4rem; font-size: .82rem; margin-right: .4rem; white-space: nowrap; }
.help { border-left: 3px solid var(--good); padding-left: .75rem; }
ul.sites { list-style: none; margin: .5rem 0; padding: 0; }
ul.sites li { padding: .1rem 0; }
.key { display: inline-block; width: .8rem; height: .8rem; border: 2px solid; border-radius: 3px; margin-right: .45rem; vertical-align: -1px; }
.key.side1 { color: var(--one); background: var(--one-back); }
.key.side2 { color: var(--two); background: var(--two-back); }
.key.conflict { color: var(--clash); background: repeating-linear-gradient(135deg, var(--clash) 0 2px, var(--clash-back) 2px 5px); }
.beside { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); gap: 0 1rem; }
.beside > div { min-width: 0; }
pre.code { margin: 0; padding: .5rem 0; background: var(--panel); border: 1px solid var(--line); border-radius: 6px; overflow-x: auto; line-height: 1.5; }
pre.code .row { display: block; min-width: max-content; padding-right: 1rem; }
pre.code .n { display: inline-block; width: 3.6rem; padding-right: .8rem; text-align: right; color: var(--faint); text-decoration: none; user-select: none; }
pre.code a.n:hover { text-decoration: underline; }
pre.code .row.side1 { background: var(--one-back); box-shadow: inset 3px 0 var(--one); }
pre.code .row.side2 { background: var(--two-back); box-shadow: inset 3px 0 var(--two); }
pre.code .row.gap { color: var(--faint); }
pre.code .row.says { padding-left: 3.6rem; font-family: system-ui, "Segoe UI", Roboto, "Liberation Sans", sans-serif; }
pre.code .row.says.side1 { color: var(--one); }
pre.code .row.says.side2 { color: var(--two); }
pre.code .row:target, .lit { outline: 2px solid var(--link); outline-offset: -2px; }
mark { background: none; color: inherit; font-weight: 700; text-decoration: underline; text-underline-offset: 3px; }
.side1 mark { text-decoration-color: var(--one); }
.side2 mark { text-decoration-color: var(--two); }
figure { margin: 1rem 0 .25rem; }
figcaption { color: var(--faint); }
figcaption ul { list-style: none; margin: .25rem 0 0; padding: 0; color: var(--ink); }
svg { max-width: 100%; height: auto; }
svg text { font: 11px ui-monospace, "DejaVu Sans Mono", Consolas, monospace; fill: var(--faint); }
svg .tensor { fill: var(--panel); stroke: var(--faint); stroke-width: 1.5; }
svg .cells { stroke: var(--line); fill: none; }
svg .side1 { fill: var(--one); fill-opacity: .25; stroke: var(--one); stroke-width: 2; }
svg .side2 { fill: var(--two); fill-opacity: .25; stroke: var(--two); stroke-width: 2; }
svg .conflict { stroke: var(--clash); stroke-width: 2; }
svg .hatch { fill: var(--clash); }
svg .hatch-back { fill: var(--clash-back); }
details > summary { cursor: pointer; color: var(--link); }
details.listing { margin: 1rem 0; }
details.listing pre { margin-top: .5rem; max-height: 36rem; overflow: auto; }
@media print { details.listing pre { max-height: none; } }
"""

SCRIPT = """\
for (const part of document.querySelectorAll("[data-site]")) {
  const same = document.querySelectorAll(`[data-site="${part.dataset.site}"]`);
  const light = (on) => same.forEach((other) => other.classList.toggle("lit", on));
  part.addEventListener("mouseenter", () => light(true));
  part.addEventListener("mouseleave", () => light(false));
}
const open = () => {
  const target = location.hash && document.getElementById(location.hash.slice(1));
  const listing = target && target.closest("details");
  if (listing) { listing.open = true; target.scrollIntoView({block: "center"}); }
};
addEventListener("hashchange", open);
open();
"""
