"""The HTML report's style sheet: one set of colours for light, one for dark."""

from typing import Final

STYLE: Final = """
:root{--bg:#f6f7f9;--card:#fff;--ink:#1d2530;--soft:#5c6877;--line:#dfe4ea;--warn:#8a5a00;--warnbg:#fff4d6;
--s0:#2f6fdb;--s1:#e07b2a;--s2:#2a9d6f;--s3:#c2477f;--s4:#7a5fd0;--s5:#b59a1f;--s6:#1f9fb5;--s7:#8a94a3}
@media (prefers-color-scheme:dark){:root{--bg:#12161c;--card:#1b2129;--ink:#e6ebf1;--soft:#98a4b3;--line:#2e3743;
--warn:#ffd479;--warnbg:#3a2f14;--s0:#6ea2ff;--s1:#f5a05c;--s2:#55c99a;--s3:#ef86b4;--s4:#a792f2;--s5:#dcc257;
--s6:#5fcbdd;--s7:#8a94a3}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.45 system-ui,-apple-system,"Segoe UI",Roboto,
"DejaVu Sans",sans-serif}
header,main,footer{max-width:1240px;margin:0 auto;padding:0 24px}
header{padding-top:28px}
h1{font-size:26px;margin:0 0 8px}
h2{font-size:20px;margin:36px 0 12px;overflow-wrap:anywhere}
h3{font-size:15px;margin:20px 0 8px}
dl{display:grid;grid-template-columns:max-content 1fr;gap:2px 14px;margin:0 0 20px;color:var(--soft)}
dt{font-weight:600}dd{margin:0;overflow-wrap:anywhere}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(140px,1fr));gap:12px;margin-bottom:16px}
.tile,figure,.scroll{background:var(--card);border:1px solid var(--line);border-radius:10px}
.tile{padding:12px 14px}.tile span{display:block;color:var(--soft);font-size:13px}.tile b{font-size:21px;
font-variant-numeric:tabular-nums}
.warn{background:var(--warnbg);color:var(--warn);padding:8px 14px;border-radius:8px}
.none{font-size:18px;color:var(--soft)}
figure{margin:0;padding:14px 16px}
figure.wide{margin-bottom:16px;overflow-x:auto}
figure.wide svg{min-width:760px}
figcaption{font-weight:600;font-size:14px;margin-bottom:8px}
.pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(480px,100%),1fr));gap:16px;align-items:start}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:4px 16px;margin:0 0 8px;padding:0;font-size:13px;
color:var(--soft)}
.legend i{display:inline-block;width:10px;height:10px;border-radius:2px;margin-right:6px}
svg{display:block;width:100%;height:auto;font-size:12px}
svg text{fill:var(--soft);font-variant-numeric:tabular-nums}
svg .e{text-anchor:end}svg .m{text-anchor:middle}svg .n,svg .v{fill:var(--ink)}
svg .v{paint-order:stroke;stroke:var(--card);stroke-width:3px}
svg .g{stroke:var(--line)}svg .a{stroke:var(--soft)}
svg .l{fill:none;stroke-width:2;stroke-linejoin:round}
svg .t{fill:transparent}svg .w:hover .t{fill:var(--soft);fill-opacity:.14}
svg .hair{stroke:var(--soft);stroke-width:1.5}svg .rare{stroke:var(--ink);stroke-width:2}
svg .mean{stroke:var(--s1);stroke-width:1.5;stroke-dasharray:4 3}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:13px;font-variant-numeric:tabular-nums}
th,td{padding:7px 9px;border-top:1px solid var(--line);text-align:left;white-space:nowrap}
thead th{border-top:0;color:var(--soft);font-weight:600}
.r{text-align:right}
a{color:var(--s0);text-decoration:none}a:hover{text-decoration:underline}
.share{display:block;width:72px;height:8px;border-radius:4px;background:var(--line)}
.share i{display:block;height:8px;border-radius:4px;background:var(--s0)}
.key{margin:-4px 0 8px;font-size:13px;color:var(--soft)}
footer{color:var(--soft);font-size:13px;padding-top:28px;padding-bottom:36px}
@media print{body{background:#fff}section{break-inside:avoid}}
"""
