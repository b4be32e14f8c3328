// Writes the report of a synthetic analysis of ViT-S* with LayerNorm and with DTN, and its figures:
// example_report FOLDER. One of the names contains a script, which must be escaped.
//   example_report --run RUN   writes report.html of a run of dtn-train instead
#include <cstdio>
#include <filesystem>
#include <string_view>

#include "apps/report/analysis/figures.h"
#include "apps/report/run_figures.h"
#include "example_analysis.h"
#include "io/atomic_file.h"
#include "plot/picture_files.h"

int main(int count, char** words) {
  if (count == 3 && std::string_view(words[1]) == "--run") {
    dtn::write_run_report(words[2]);
    return 0;
  }
  if (count != 2) {
    std::fputs("usage: example_report FOLDER\n       example_report --run RUN\n", stderr);
    return 2;
  }
  const std::filesystem::path folder = words[1];
  dtn::ExampleRun plain, dynamic;
  plain.name = "LN <script>document.title='taken over'</script>";
  dynamic.name = "DTN";
  dynamic.normalizer = "dtn";
  dynamic.dtn = true;
  dynamic.history = 60;
  const dtn::Analysis analysis = dtn::example_analysis({plain, dynamic});
  std::vector<dtn::plot::Figure> figures = dtn::draw_figures(analysis.json, analysis.previews);
  for (dtn::plot::Figure& f : dtn::illustrations()) figures.push_back(std::move(f));
  dtn::plot::PictureFolder pictures(folder / "figures");
  for (const dtn::plot::Figure& f : figures) pictures.write(f.name, f.svg);
  dtn::write_file_atomic(folder / "report.html", dtn::report_html(analysis.json, figures));
  return 0;
}
