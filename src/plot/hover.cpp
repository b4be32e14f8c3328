#include "plot/hover.h"

#include <array>
#include <cmath>

#include "core/format.h"
#include "dtn/core/check.h"

namespace dtn::plot {
namespace {

// Follows the pointer, a finger or the arrow keys over every <svg data-frame> of a figure with
// data-values. Names reach the page as text only, never as markup.
constexpr std::string_view kHoverScript = R"js(
"use strict";
const tip = document.body.appendChild(document.createElement("div"));
tip.className = "tip";
tip.hidden = true;
tip.setAttribute("role", "status");
let marks = null;

function make(parent, name, attributes) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const key in attributes) element.setAttribute(key, attributes[key]);
  return parent.appendChild(element);
}
function add(parent, name, text) {
  const element = parent.appendChild(document.createElement(name));
  element.textContent = text;
  return element;
}
function number(value) { return value === null ? "-" : String(Number(value.toPrecision(5))); }
function hide() {
  tip.hidden = true;
  if (marks) marks.remove();
  marks = null;
}
function nearest(sorted, value) {
  let best = 0;
  sorted.forEach((v, i) => { if (Math.abs(v - value) < Math.abs(sorted[best] - value)) best = i; });
  return best;
}

// The frame of a chart: its box, the ends of both axes, and 1 for each logarithmic axis.
class Frame {
  constructor(text) {
    [this.left, this.top, this.width, this.height, this.x0, this.x1, this.y0, this.y1, this.logX,
      this.logY] = text.split(" ").map(Number);
  }
  share(value, low, high, log) {
    return log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
  }
  x(value) { return this.left + this.width * this.share(value, this.x0, this.x1, this.logX); }
  y(value) { return this.top + this.height * (1 - this.share(value, this.y0, this.y1, this.logY)); }
  valueAt(x) {
    const share = (x - this.left) / this.width;
    return this.logX ? this.x0 * Math.pow(this.x1 / this.x0, share)
                     : this.x0 + share * (this.x1 - this.x0);
  }
}

function row(data, line, i, x) {
  const item = add(tip, "div", "");
  add(item, "i", line.mark).style.color = "var(--" + line.paint + ")";
  const other = line.x[i] === x ? "" : " (" + data.x + " " + number(line.x[i]) + ")";
  add(item, "span", line.name + other);
  let text = number(line.y[i]);
  if (line.low) text += " (" + number(line.low[i]) + " to " + number(line.high[i]) + ")";
  add(item, "b", text);
}
function show(svg, data, frame, x, at) {
  hide();
  tip.replaceChildren();
  marks = make(svg, "g", {"pointer-events": "none"});
  const across = frame.x(x);
  make(marks, "path", {class: "k-soft", d: `M${across},${frame.top}v${frame.height}`});
  add(tip, "div", data.x + " " + number(x));
  for (const line of data.lines) {
    const near = Math.abs(frame.x1 - frame.x0) / 40;
    if (x < line.x[0] - near || x > line.x[line.x.length - 1] + near) continue;
    const i = nearest(line.x, x), y = line.y[i];
    row(data, line, i, x);
    if (y === null || (frame.logY && y <= 0)) continue;
    const place = Math.min(Math.max(frame.y(y), frame.top), frame.top + frame.height);
    make(marks, "circle", {class: "k-ink f-" + line.paint, r: 4.5, cx: frame.x(line.x[i]), cy: place});
  }
  tip.hidden = false;
  const room = document.documentElement.clientWidth - tip.offsetWidth - 8;
  const right = at.x + 16 > room ? at.x - 16 - tip.offsetWidth : at.x + 16;
  tip.style.left = Math.max(8, Math.min(right, room)) + "px";
  tip.style.top = Math.max(8, at.y - tip.offsetHeight - 16) + "px";
}

function follow(svg, data) {
  const frame = new Frame(svg.dataset.frame);
  const places = [...new Set(data.lines.flatMap(line => line.x))].sort((a, b) => a - b);
  let chosen = places.length - 1;
  const point = event => {
    const box = svg.getBoundingClientRect(), scale = svg.viewBox.baseVal.width / box.width;
    const x = (event.clientX - box.left) * scale, y = (event.clientY - box.top) * scale;
    const outside = Math.max(frame.left - x, x - frame.left - frame.width, frame.top - y,
                             y - frame.top - frame.height);
    if (outside > 20) return hide();
    chosen = nearest(places, frame.valueAt(x));
    show(svg, data, frame, places[chosen], {x: event.clientX, y: event.clientY});
  };
  const step = () => {
    const box = svg.getBoundingClientRect(), scale = box.width / svg.viewBox.baseVal.width;
    const at = {x: box.left + frame.x(places[chosen]) * scale, y: box.top + frame.top * scale + 40};
    show(svg, data, frame, places[chosen], at);
  };
  const keys = {ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -1e9, End: 1e9};
  svg.addEventListener("pointermove", point);
  svg.addEventListener("pointerdown", point);
  svg.addEventListener("pointerleave", event => { if (event.pointerType === "mouse") hide(); });
  svg.addEventListener("focus", () => { if (svg.matches(":focus-visible")) step(); });
  svg.addEventListener("blur", hide);
  svg.addEventListener("keydown", event => {
    if (event.key === "Escape") hide();
    if (!(event.key in keys)) return;
    event.preventDefault();
    chosen = Math.max(0, Math.min(places.length - 1, chosen + keys[event.key]));
    step();
  });
  svg.setAttribute("tabindex", 0);
  svg.style.touchAction = "pan-y";
  svg.querySelectorAll("title").forEach(title => title.remove());
}

document.addEventListener("scroll", hide, {passive: true});
document.addEventListener("pointerdown", event => {
  if (!event.target.closest("svg[data-frame]")) hide();
});
for (const figure of document.querySelectorAll("figure[data-values]")) {
  const data = JSON.parse(figure.dataset.values);
  for (const svg of figure.querySelectorAll("svg[data-frame]")) follow(svg, data);
}
)js";

constexpr std::string_view kHoverStyle = R"css(
svg[data-frame]{cursor:crosshair}svg[data-frame]:focus:not(:focus-visible){outline:none}
.tip{position:fixed;z-index:9;pointer-events:none;max-width:min(24rem,calc(100vw - 1rem));
padding:.3rem .6rem;border:1px solid var(--soft);border-radius:.4rem;background:var(--paper);
font-size:.8rem;line-height:1.45}
.tip>div{display:flex;gap:.5rem}.tip[hidden]{display:none}
.tip i{font-style:normal}.tip span{flex:1;color:var(--soft)}.tip b{white-space:nowrap}
)css";

std::string json_number(double value) {
  return std::isfinite(value) ? format("%.6g", value) : "null";
}

std::string json_list(const std::vector<double>& values, std::span<const std::size_t> kept) {
  std::string out = "[";
  for (const std::size_t i : kept) {
    if (out.size() > 1) out += ',';
    out += json_number(values[i]);
  }
  return out + "]";
}

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20) {
      out += format("\\u%04x", static_cast<unsigned>(c));
      continue;
    }
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

// Returns a character that resembles the marker.
const char* character_of(Marker marker) {
  constexpr std::array kCharacters = {"\xE2\x97\x8F", "\xE2\x96\xA0", "\xE2\x96\xB2",
                                      "\xE2\x97\x86", "\xE2\x96\xBC", "\xE2\x9C\x9A",
                                      "\xE2\x98\x85"};
  static_assert(kCharacters.size() == kMarkers);
  return kCharacters[static_cast<std::size_t>(marker)];
}

std::string json_line(const Series& line) {
  const std::vector<std::size_t> kept = thinned(line.x.size());
  std::string out =
      cat("{\"name\":", json_string(line.label), ",\"paint\":\"", series_paint(line.style).name,
          "\",\"mark\":\"", line.markers ? character_of(series_marker(line.style)) : "\xE2\x80\x94",
          "\",\"x\":", json_list(line.x, kept), ",\"y\":", json_list(line.y, kept));
  if (!line.low.empty()) {
    out += cat(",\"low\":", json_list(line.low, kept), ",\"high\":", json_list(line.high, kept));
  }
  return out + "}";
}

}  // namespace

std::string hover_values(std::string_view x_label, std::span<const Series> lines) {
  std::string out;
  for (const Series& line : lines) {
    if (!line.x.empty()) out += cat(out.empty() ? "" : ",", json_line(line));
  }
  return cat("{\"x\":", json_string(x_label), ",\"lines\":[", out, "]}");
}

std::string_view hover_script() { return kHoverScript; }

// SHA-256 of hover_script() in base64. The test of reports in a browser computes it anew.
std::string_view hover_hash() { return "sha256-F11XnNzXuyGDuIHunO9DRv6ymkklVvWjQv7DnCFU55Q="; }

std::string_view hover_style() { return kHoverStyle; }

}  // namespace dtn::plot
