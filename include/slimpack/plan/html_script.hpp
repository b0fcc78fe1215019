#pragma once

#include <string_view>

namespace slimpack::detail {

/// Script of the comparison page: view, timelines, what stands under the pointer. `DATA` holds the plans;
/// times are microseconds, memory is megabytes.
inline constexpr std::string_view html_script = R"js(
'use strict';
const $ = id => document.getElementById(id);
const end = Math.max(1, ...DATA.map(plan => plan.end));
const shown = DATA.map(() => 0);
const row = 17, gap = 30, right = 12;
let view = [0, end], theme = {};

function readTheme() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ['fg', 'dim', 'line', 'idle', 'card', 'F', 'B', 'W', 'onF', 'onB', 'onW'])
    theme[name] = style.getPropertyValue('--' + name).trim();
}
function fit(canvas, height) {
  const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth;
  canvas.style.height = height + 'px';
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const g = canvas.getContext('2d');
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.font = '11px system-ui, "DejaVu Sans", sans-serif';
  return [g, width];
}
function seconds(us) {
  if (us >= 1e6) return (us / 1e6).toFixed(3) + ' s';
  return us >= 1e3 ? (us / 1e3).toFixed(2) + ' ms' : us.toFixed(0) + ' µs';
}
// What stands left of a canvas's charts: names of stages, values of an axis.
const leftOf = width => width < 600 ? 52 : 76;
const spread = width => (width - leftOf(width) - right) / (view[1] - view[0]);

// The plan's drawn pipeline, each stage's tasks as arrays by place in its order.
function tasksOf(plan, i) {
  plan.decoded ??= [];
  return plan.decoded[i] ??= plan.stages[i].map((flat, s) => {
    const n = flat.length / 3, key = new Int32Array(n);
    const start = new Float64Array(n), finish = new Float64Array(n);
    for (let k = 0, now = 0; k < n; ++k) {
      key[k] = flat[3 * k];
      start[k] = now + flat[3 * k + 1];
      now = finish[k] = start[k] + flat[3 * k + 2];
    }
    return { key, start, finish, critical: new Set(plan.critical[i][s]) };
  });
}
function firstAfter(list, value) {
  let low = 0, high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle] > value) high = middle; else low = middle + 1;
  }
  return low;
}

function ticks(lo, hi, n) {
  const raw = (hi - lo) / n, power = Math.pow(10, Math.floor(Math.log10(raw)));
  const step = [1, 2, 5, 10].map(f => f * power).find(s => s >= raw * .999);
  const list = [];
  for (let k = Math.ceil(lo / step); k * step <= hi; ++k) list.push(k * step);
  return [list, step];
}
function timeAxis(g, width, top, bottom) {
  const [list, step] = ticks(view[0], view[1], Math.max(2, width / 130));
  const unit = step >= 1e4 ? [1e6, 's'] : step >= 10 ? [1e3, 'ms'] : [1, 'µs'];
  const digits = Math.max(0, -Math.floor(Math.log10(step / unit[0]) + 1e-9));
  g.fillStyle = theme.dim; g.strokeStyle = theme.line; g.lineWidth = 1; g.textAlign = 'center';
  for (const t of list) {
    const x = leftOf(width) + (t - view[0]) * spread(width);
    g.beginPath(); g.moveTo(x + .5, top); g.lineTo(x + .5, bottom); g.stroke();
    g.fillText((t / unit[0]).toFixed(digits) + ' ' + unit[1], x, bottom + 13);
  }
}
function caption(g, text, x, y) {
  g.textAlign = 'left';
  g.fillStyle = theme.card; g.fillRect(x - 2, y - 10, g.measureText(text).width + 4, 13);
  g.fillStyle = theme.fg; g.fillText(text, x, y);
}
function horizontal(g, colour, y, from, to) {
  g.strokeStyle = colour; g.beginPath(); g.moveTo(from, y); g.lineTo(to, y); g.stroke();
}
// Horizontal lines at round values, from `base` upwards.
function valueAxis(g, width, base, height, top, text) {
  for (const t of ticks(0, top, Math.max(2, height / 22))[0]) {
    const y = Math.round(base - t / top * height);
    g.fillStyle = theme.dim; g.textAlign = 'right'; g.fillText(text(t), leftOf(width) - 6, y + 4);
    g.lineWidth = 1; horizontal(g, theme.line, y + .5, leftOf(width), width - right);
  }
}

// A pack is painted in the colour of the sample that it holds most tokens of.
const packOf = (plan, key) => plan.packs[key % 3 === 0 ? 0 : 1][Math.floor(key / 3)];
function paint(plan, key) {
  if ($('colour').value === 'pass') return theme['FBW'[key % 3]];
  const slices = packOf(plan, key)[1];
  let sample = -1, most = 0;
  for (let k = 0; k < slices.length; k += 3)
    if (slices[k + 2] - slices[k + 1] > most) { sample = slices[k]; most = slices[k + 2] - slices[k + 1]; }
  return sample < 0 ? theme.dim : `hsl(${(sample * 137.508) % 360} 58% ${key % 3 ? 58 : 70}%)`;
}
// Draws tasks that are wider than two pixels as bars. The others share columns: forward below backward, each
// as high as its share of the time, and what is idle stays open above.
function drawStage(g, plan, tasks, top, width) {
  const left = leftOf(width), scale = spread(width), height = row - 2, bySample = $('colour').value === 'sample';
  const at = t => left + (t - view[0]) * scale;
  const step = 4;
  let column = -1, parts = [];
  const flush = () => {
    let y = top + height;
    parts.sort((a, b) => a[0] - b[0]);
    for (let k = 0; k < parts.length;) {
      const colour = parts[k][1];
      let share = 0;
      for (; k < parts.length && parts[k][1] === colour; ++k) share += parts[k][2];
      g.fillStyle = colour; g.fillRect(column * step, y - share * height, step, share * height);
      y -= share * height;
    }
    parts = [];
  };
  const wide = [], critical = [];
  for (let k = firstAfter(tasks.finish, view[0]); k < tasks.key.length && tasks.start[k] < view[1]; ++k) {
    const a = Math.max(left, at(tasks.start[k])), b = Math.min(width - right, at(tasks.finish[k]));
    if (tasks.critical.has(tasks.key[k])) critical.push([a, Math.max(1, b - a)]);
    if (b - a >= 2) { wide.push([k, a, b]); continue; }
    const colour = paint(plan, tasks.key[k]);
    for (let c = Math.floor(a / step); c * step < b; ++c) {
      if (c !== column) { flush(); column = c; }
      parts.push([tasks.key[k] % 3, colour, (Math.min(b, (c + 1) * step) - Math.max(a, c * step)) / step]);
    }
  }
  flush();
  for (const [k, a, b] of wide) {
    const letter = 'FBW'[tasks.key[k] % 3];
    g.fillStyle = paint(plan, tasks.key[k]);
    g.fillRect(a, top, b - a - (b - a > 4 ? .8 : 0), height);
    if (bySample && letter === 'B' && b - a > 4) {
      g.fillStyle = '#0006';
      g.fillRect(a, top + height - 3, b - a - .8, 3);
    }
    if (b - a < 32) continue;
    g.fillStyle = bySample ? '#10151a' : theme['on' + letter]; g.textAlign = 'center';
    g.fillText(letter + Math.floor(tasks.key[k] / 3), (a + b) / 2, top + 11.5);
  }
  if (!$('critical').checked) return;
  g.fillStyle = theme.fg;
  for (const [a, length] of critical) g.fillRect(a, top - 1, length, 2);
}
let rows = [];
function timelines() {
  const total = DATA.reduce((sum, plan, i) => sum + plan.stages[shown[i]].length * row + gap, 0);
  const [g, width] = fit($('timeline'), total + 22), left = leftOf(width);
  timeAxis(g, width, 4, total + 2);
  rows = [];
  let y = 20;
  DATA.forEach((plan, i) => {
    const stages = tasksOf(plan, shown[i]);
    const busy = stages.reduce((sum, t) => t.finish.reduce((s, f, k) => s + f - t.start[k], sum), 0);
    caption(g, `${plan.title}: pipeline ${plan.pipelines[shown[i]]} of ${plan.all}, ${seconds(plan.end)}, ` +
      `idle ${(100 - 100 * busy / (plan.end * stages.length)).toFixed(1)}%`, width < 600 ? 8 : left, y - 6);
    stages.forEach((tasks, s) => {
      const top = y + s * row, x1 = Math.min(width - right, left + (plan.end - view[0]) * spread(width));
      g.fillStyle = theme.dim; g.textAlign = 'right';
      g.fillText((width < 600 ? '' : 'stage ') + s, left - 6, top + 12);
      g.fillStyle = theme.idle;
      if (x1 > left) g.fillRect(left, top, x1 - left, row - 2);
      drawStage(g, plan, tasks, top, width);
      rows.push([top, i, s]);
    });
    y += stages.length * row + gap;
  });
}

// What stands under the pointer.
function sliceLines(slices) {
  const lines = [];
  for (let k = 0; k < Math.min(slices.length, 24); k += 3)
    lines.push(`sample ${slices[k]}: ${slices[k + 1]} to ${slices[k + 2]}`);
  if (slices.length > 24) lines.push(`and ${slices.length / 3 - 8} more`);
  return lines.join('\n');
}
function describeTask(plan, tasks, k) {
  const key = tasks.key[k], start = tasks.start[k], finish = tasks.finish[k];
  const pack = packOf(plan, key), slices = pack[1];
  let tokens = 0;
  for (let i = 0; i < slices.length; i += 3) tokens += slices[i + 2] - slices[i + 1];
  return `${['forward pack', 'backward pack', 'weight gradient of pack'][key % 3]} ${Math.floor(key / 3)}` +
    `${pack[0] > 1 ? `, merged over ${pack[0]} pipelines` : ''}` +
    `${tasks.critical.has(key) ? ', on the critical path' : ''}\n` +
    `${seconds(start)} to ${seconds(finish)}, takes ${seconds(finish - start)}\n` +
    `${tokens.toLocaleString('en')} tokens in ${slices.length / 3} slice${slices.length === 3 ? '' : 's'}\n` +
    sliceLines(slices);
}
function describe(x, y) {
  const hit = rows.find(r => y >= r[0] && y < r[0] + row), width = $('timeline').clientWidth, left = leftOf(width);
  if (!hit || x < left || x > width - right) return '';
  const [, i, s] = hit, plan = DATA[i], tasks = tasksOf(plan, shown[i])[s];
  const t = view[0] + (x - left) / spread(width);
  if (t > plan.end) return '';
  const where = `${plan.title}, pipeline ${plan.pipelines[shown[i]]}, stage ${s}\n`;
  const k = firstAfter(tasks.finish, t);
  if (k < tasks.key.length && tasks.start[k] <= t)
    return where + describeTask(plan, tasks, k);
  const from = k > 0 ? tasks.finish[k - 1] : 0, to = k < tasks.key.length ? tasks.start[k] : plan.end;
  return where + `idle from ${seconds(from)} to ${seconds(to)}, for ${seconds(to - from)}`;
}
function tip(event, text) {
  const t = $('tip');
  t.textContent = text;
  t.style.display = text ? 'block' : 'none';
  t.style.left = Math.max(0, Math.min(event.clientX + 14, innerWidth - t.offsetWidth - 8)) + 'px';
  t.style.top = Math.max(0, Math.min(event.clientY + 14, innerHeight - t.offsetHeight - 8)) + 'px';
}
)js";

}  // namespace slimpack::detail
