"""The style sheet of a kernel's page, in addition to that of all our pages."""

from tilewright.machine.sanitize.page_style import STYLE as COMMON_STYLE

STYLE = (
    COMMON_STYLE
    + """\
:root { --pin: #c77700; --value: #0b5cad; --symbol: #8a3fb0; --note: #5c6672; --op: #1c2128; }
@media (prefers-color-scheme: dark) {
  :root { --pin: #f0a85a; --value: #79b8ff; --symbol: #d2a8ff; --note: #98a3b0; --op: #ffffff; }
}
body { max-width: none; padding: 1.25rem 1.5rem 4rem; }
h1, dl.facts dd { overflow-wrap: anywhere; }
dl.facts { grid-template-columns: fit-content(40%) minmax(0, 1fr); }
section > h2 { margin: 2rem 0 .5rem; }
section > p { margin: .35rem 0; max-width: 60rem; }
.tools { display: flex; flex-wrap: wrap; gap: .35rem 1.25rem; align-items: center; margin: .5rem 0; }
.tools label { display: inline-flex; gap: .4rem; align-items: center; }
select, button, input { font: inherit; color: inherit; }
select, button {
  background: var(--panel); border: 1px solid var(--line); border-radius: 5px; padding: .15rem .5rem;
}
:focus-visible { outline: 2px solid var(--link); outline-offset: 1px; }
.unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
p.lead { margin: 0 0 .25rem; overflow-wrap: anywhere; }
details.others summary { color: var(--faint); font-size: .9rem; cursor: pointer; }
ul.others { list-style: none; margin: .25rem 0; padding: 0; display: flex; flex-wrap: wrap; gap: .15rem 1.25rem; font-size: .9rem; color: var(--faint); }
ul.others code { overflow-wrap: anywhere; }
ul.kinds { list-style: none; margin: 0; padding: 0; }
ul.kinds li { display: inline-block; margin-right: 1.5rem; }
ul.kinds code:first-child { color: var(--value); }
.level-box { border: 1px solid var(--line); border-radius: 5px; padding: .05rem .5rem .05rem .35rem; font-size: .9rem; }
.level-box:has(:checked) { background: var(--panel); border-color: var(--faint); }
.levels { display: grid; grid-auto-flow: column; grid-auto-columns: minmax(20rem, 1fr); gap: .75rem; overflow-x: auto; }
.level { min-width: 0; display: flex; flex-direction: column; }
.level[hidden] { display: none; }
.level h3 { margin: .25rem 0 .3rem; white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
.level h3 .faint { font-weight: 400; margin-left: .4rem; }
.lines {
  position: relative; overflow: auto; height: max(22rem, 100vh - 13rem); background: var(--panel);
  border: 1px solid var(--line); border-radius: 6px; padding: .4rem 0; line-height: 1.5;
}
.row { display: block; min-width: max-content; padding-right: 1rem; white-space: pre; cursor: default; }
.row[data-links] { cursor: pointer; }
.wraps .row { min-width: 0; white-space: pre-wrap; overflow-wrap: anywhere; padding-left: 3.2rem; text-indent: -3.2rem; }
.row .n { display: inline-block; width: 3.2rem; padding-right: .8rem; text-indent: 0; text-align: right; color: var(--faint); user-select: none; }
.row.lit { outline: none; background: var(--lit); }
.row.here { box-shadow: inset 3px 0 var(--link); }
.row.pinned { box-shadow: inset 3px 0 var(--pin); background: var(--lit); }
.row.lit .n, .row.lit .t, .row.lit .c { color: var(--ink); }
.row:focus-visible { outline: 2px solid var(--link); outline-offset: -2px; }
.row .v { color: var(--value); }
.row .s { color: var(--symbol); }
.row .c { color: var(--note); font-style: italic; }
.row .t { color: var(--faint); }
.row .k { color: var(--symbol); font-weight: 600; }
.row .o { color: var(--op); font-weight: 600; }
@media (max-width: 48rem) {
  body { padding: .75rem .75rem 3rem; }
  .levels { grid-auto-flow: row; grid-auto-columns: auto; grid-template-columns: minmax(0, 1fr); }
  .lines { height: min(60vh, 30rem); }
  dl.facts { grid-template-columns: minmax(0, 1fr); }
  dl.facts dd { margin-bottom: .4rem; }
}
.here-facts { min-height: 8.5rem; max-height: 16rem; overflow: auto; margin-top: .75rem; padding: .5rem .9rem; border: 1px solid var(--line); border-radius: 6px; }
.here-facts h3 { margin: 0 0 .3rem; }
.here-facts h4 { margin: .5rem 0 .1rem; font-size: .85rem; color: var(--faint); font-weight: 500; }
.here-facts ul { margin: 0; padding-left: 1.2rem; }
.remark-table { max-height: 26rem; overflow: auto; border: 1px solid var(--line); border-radius: 6px; }
.remark-table table { border-collapse: collapse; width: 100%; }
.remark-table th { position: sticky; top: 0; background: var(--panel); text-align: left; font-weight: 500; color: var(--faint); }
.remark-table td, .remark-table th { border-bottom: 1px solid var(--line); padding: .2rem .75rem; vertical-align: top; }
details.change { margin: .4rem 0; border: 1px solid var(--line); border-radius: 6px; padding: .35rem .75rem; }
details.change pre { margin: .5rem 0 .25rem; }
.change .time { float: right; color: var(--faint); }
.plus { color: var(--good); } .minus { color: var(--bad); }
.diff .added { background: color-mix(in srgb, var(--good) 16%, transparent); }
.diff .removed { background: color-mix(in srgb, var(--bad) 14%, transparent); }
.diff .added .n, .diff .removed .n { color: var(--ink); }
.diff .sign { display: inline-block; width: 1.4rem; text-align: center; user-select: none; }
.diff .n { width: 2.9rem; padding-right: .5rem; }
.diff .row { display: block; min-width: max-content; }
.figures { display: flex; flex-wrap: wrap; gap: 1rem 2.5rem; }
.figures figure { margin: .5rem 0; max-width: 100%; min-width: 0; overflow-x: auto; }
.tokens svg { max-width: none; }
.tokens text { fill: var(--ink); font-size: 13px; }
.tokens path { color: var(--faint); }
.tokens marker path { fill: var(--faint); }
.tokens a:hover text, .tokens a:focus-visible text { text-decoration: underline; fill: var(--link); }
.tokens a.lit { outline: none; }
.tokens a.lit text { fill: var(--pin); font-weight: 700; }
svg .load, svg .store, svg .atomic { fill: var(--panel); fill-opacity: 0; stroke: var(--faint); stroke-opacity: .45; stroke-width: .75; cursor: pointer; }
svg rect.on { stroke-width: 2; stroke-opacity: 1; fill-opacity: .25; }
svg rect.load.on { fill: var(--one); stroke: var(--one); }
svg rect.store.on { fill: var(--two); stroke: var(--two); }
svg rect.atomic.on { fill: var(--clash); stroke: var(--clash); }
svg rect.lit { outline: none; stroke-opacity: 1; }
svg rect.on.lit { fill-opacity: .65; }
.key.load { color: var(--one); background: var(--one-back); }
.key.store { color: var(--two); background: var(--two-back); }
.key.atomic { color: var(--clash); background: var(--clash-back); }
.tools input[type=range] { width: min(24rem, 60vw); }
ul.touched { list-style: none; margin: .25rem 0; padding: 0; }
pre.how { padding: .6rem .9rem; background: var(--panel); border: 1px solid var(--line); border-radius: 6px; overflow-x: auto; }
"""
)
