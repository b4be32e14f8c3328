#include "plot/picture_files.h"

#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "io/atomic_file.h"
#include "io/child_process.h"
#include "io/file.h"
#include "plot/color.h"

namespace dtn::plot {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRenderer = "rsvg-convert";

std::string text_of(const fs::path& file) {
  const std::vector<std::byte> bytes = read_file(file.string());
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Adds the dark mode of the browser that shows the file. rsvg-convert ignores it.
std::string with_dark_mode(const std::string& svg) {
  std::string rules;
  for (const Paint& p : all_paints()) {
    const std::string color = hex(p.dark);
    rules += cat(".f-", p.name, "{fill:", color, "}.k-", p.name, "{stroke:", color, "}");
  }
  const std::size_t inside = svg.find('>') + 1;
  return cat(svg.substr(0, inside), "\n<style>@media(prefers-color-scheme:dark){", rules,
             "}</style>", svg.substr(inside));
}

// Temporary files, removed in all cases at the end of the scope.
struct Scratch {
  fs::path picture, log;
  ~Scratch() {
    std::error_code ignored;
    fs::remove(picture, ignored);
    fs::remove(log, ignored);
  }
};

}  // namespace

PictureFolder::PictureFolder(fs::path folder, PictureFormats formats)
    : folder_(std::move(folder)), formats_(formats) {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) throw Error(cat("cannot create ", folder_.string(), ": ", error.message()));
}

void PictureFolder::write(const std::string& name, const std::string& svg) {
  const fs::path path = folder_ / (name + ".svg"), png = folder_ / (name + ".png");
  write_file_atomic(path, with_dark_mode(svg));
  if (formats_ == PictureFormats::kSvg) {
    std::error_code ignored;
    fs::remove(png, ignored);  // of an earlier version of dtn
    return;
  }
  try {
    draw_png(path, png);
  } catch (const Error& e) {
    std::error_code ignored;
    fs::remove(png, ignored);  // an older one would show a different picture
    if (warned_) return;
    warned_ = true;
    log_warn(cat("wrote only SVG figures to ", folder_.string(), ": ", e.what(),
                 "; PNG figures need ", kRenderer,
                 " (Debian packages librsvg2-bin and fonts-dejavu-core)"));
  }
}

void PictureFolder::draw_png(const fs::path& svg, const fs::path& png) {
  const Scratch scratch = {png.string() + ".part", png.string() + ".log"};
  ChildProcess child({kRenderer, "--zoom=2", "--format=png", "--output",
                      fs::absolute(scratch.picture).string(), fs::absolute(svg).string()},
                     scratch.log);
  const ChildExit end = child.wait();
  if (end.signal) throw Error(cat(kRenderer, " was killed by signal ", end.signal));
  if (end.code) throw Error(cat(kRenderer, " failed: ", text_of(scratch.log)));
  write_file_atomic(png, text_of(scratch.picture));
}

}  // namespace dtn::plot
