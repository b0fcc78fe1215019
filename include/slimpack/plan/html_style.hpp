#pragma once

#include <string_view>

namespace slimpack::detail {

/// Style of the comparison page, by the colours of markup.hpp.
inline constexpr std::string_view html_style = R"css(
body{margin:0 auto;max-width:1500px;padding:16px;background:var(--bg);color:var(--fg);
font:14px/1.45 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
h1{font-size:20px;margin:0 0 4px}h2{font-size:15px;margin:20px 0 6px}
.bar{display:flex;flex-wrap:wrap;gap:8px 14px;align-items:center;color:var(--dim);margin:6px 0}
.bar:empty{display:none}
.bar label{display:inline-flex;gap:5px;align-items:center}
.key{display:inline-block;width:11px;height:11px;border-radius:2px;margin-right:4px}
canvas{display:block;width:100%;background:var(--card);border:1px solid var(--line);border-radius:6px;
box-sizing:border-box;touch-action:pan-y}
canvas:focus-visible{outline:1px solid var(--F)}
.figures{display:flex;flex-wrap:wrap;gap:14px;align-items:flex-start;margin:10px 0}
.scroll{overflow-x:auto;background:var(--card);border:1px solid var(--line);border-radius:6px;max-width:100%;
box-sizing:border-box}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;margin:4px 0}
td,th{padding:1px 14px;text-align:right;white-space:nowrap}
tbody th{font-weight:normal;color:var(--dim);text-align:left}
@media (max-width:600px){td,th{padding:1px 8px;white-space:normal}}
.note{color:var(--dim);margin:2px 0}
ul.note{padding-left:18px}
select,button{font:inherit;color:inherit;background:var(--card);border:1px solid var(--line);
border-radius:5px;padding:2px 8px}
#tip{position:fixed;pointer-events:none;display:none;max-width:min(420px,90vw);
background:var(--card);color:var(--fg);border:1px solid var(--line);border-radius:6px;
padding:7px 10px;font-size:12.5px;box-shadow:0 3px 14px #0003;
white-space:pre-line;z-index:9;font-variant-numeric:tabular-nums}
.scroll svg{display:block}
)css";

/// What stands between the table of figures and the script.
inline constexpr std::string_view html_body = R"html(<h2>Timelines</h2>
<div class="bar"><span id="choices" class="bar"></span><label>colour by
<select id="colour"><option>pass</option><option>sample</option></select></label>
<span><i class="key" style="background:var(--F)"></i>forward</span>
<span><i class="key" style="background:var(--B)"></i>backward</span>
<span><i class="key" style="background:var(--idle)"></i>idle</span>
<label><input type="checkbox" id="critical" checked>critical path (line above)</label>
<span><button id="in" title="zoom in">+</button> <button id="out" title="zoom out">−</button>
<button id="reset">whole step</button></span></div>
<canvas id="timeline" tabindex="0"></canvas>
<p class="note">Wheel or + and −: zoom; drag or arrows: move. Where tasks are too narrow to tell apart, the height of a
colour is its share of the time.</p>
<div id="memory-part"><h2>Memory of each stage, per device</h2><div id="stages" class="bar"></div>
<canvas id="memory"></canvas></div>
<div id="tip"></div>
)html";

}  // namespace slimpack::detail
