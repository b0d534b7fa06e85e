"""How a report's page looks: on a phone, in the dark, on paper. No script, nothing from elsewhere."""

CSS = """
:root {
  color-scheme: light dark;
  --paper: #ffffff; --ink: #1b1f24; --faint: #56606b; --line: #c9d1d9;
  --mark: #a40e26; --link: #0550ae; --code: #eef1f4;
  --shade-0: #0550ae; --shade-1: #953800; --shade-2: #116329; --shade-3: #8250df;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    --paper: #12161b; --ink: #e6eaef; --faint: #a2acb8; --line: #3a434d;
    --mark: #ff9492; --link: #79c0ff; --code: #232a32;
    --shade-0: #79c0ff; --shade-1: #ffb77c; --shade-2: #7ee787; --shade-3: #d2a8ff;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 1rem; max-width: 60rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere;
}
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0.5rem 0; }
h2 { font-size: 1.2rem; margin: 2rem 0 0.5rem; border-bottom: 1px solid var(--line); padding-bottom: 0.2rem; }
p, ul { margin: 0.5rem 0; }
ul { padding-left: 1.3rem; }
nav a { display: inline-block; margin-right: 0.9rem; padding: 0.2rem 0; }
a { color: var(--link); }
code { background: var(--code); padding: 0 0.25em; border-radius: 3px; font-size: 0.92em; }
.about, footer, caption { color: var(--faint); }
.missed { color: var(--mark); font-weight: 700; }
table { border-collapse: collapse; width: 100%; margin: 0.8rem 0; font-variant-numeric: tabular-nums; }
caption { text-align: left; padding-bottom: 0.3rem; }
th, td { text-align: left; vertical-align: top; padding: 0.3rem 1rem 0.3rem 0; border-bottom: 1px solid var(--line); }
th { font-weight: 600; }
thead th { overflow-wrap: normal; }
.right { text-align: right; }
figure { margin: 1rem 0; max-width: 36rem; }
figcaption { font-weight: 600; }
svg { display: block; width: 100%; height: auto; }
svg * { stroke-linejoin: round; stroke-linecap: butt; }
@media screen and (max-width: 44rem) {
  table, caption, tbody, tr, td, tbody th { display: block; width: 100%; }
  thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  tr { border-bottom: 1px solid var(--line); padding: 0.4rem 0; }
  td, td.right, tbody th { border: 0; padding: 0.05rem 0; text-align: left; }
  td::before { content: attr(data-label) ": "; color: var(--faint); }
}
@media print {
  @page { margin: 15mm; }
  body { padding: 0; max-width: none; font-size: 10pt; }
  nav { display: none; }
  thead { display: table-header-group; }
  tr, figure, li { break-inside: avoid; }
  h2, caption, figcaption { break-after: avoid; }
}
"""
