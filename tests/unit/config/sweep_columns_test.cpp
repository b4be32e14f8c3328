// `columns:` of sweep files.
#include "config/sweeps/sweep_config.h"
#include "unit/config/helpers.h"

namespace dtn::testing {
namespace {

class SweepColumnKeys : public ::testing::Test {
 protected:
  SweepColumnKeys() {
    folder_.write("base.yaml",
                  "model: {preset: vit_t, norm: ln}\nschedule: {epochs: 9}\n"
                  "train: {batch_size: 32}\n");
  }

  // Names and labels of the columns, for example "top5=top-5 loss=loss".
  std::string load(const std::string& text) {
    std::string found;
    for (const SweepColumn& column :
         load_sweep(folder_.write("s.yaml", text), {}, fake_schemas()).columns) {
      found += cat(found.empty() ? "" : " ", column.name, "=", column.label);
    }
    return found;
  }
  // A sweep of one variant. The value of `columns:` is in the second line.
  std::string with(const std::string& columns) {
    return load("base: base.yaml\ncolumns: " + columns + "\nvariants: [{name: a}]\n");
  }

  TempFolder folder_;
};

TEST_F(SweepColumnKeys, NamesAndLabels) {
  EXPECT_EQ(with("\n  - {name: top1_article, label: \"top-1, article (%)\"}\n  - top5\n"
                 "  - {name: loss}\n  - {name: 'a+b-C.9_', label: null}\n  - .5"),
            "top1_article=top-1, article (%) top5=top5 loss=loss a+b-C.9_=a+b-C.9_ .5=.5");
  EXPECT_EQ(load("base: base.yaml\nvariants: [{name: a}]\n"), "");
  EXPECT_EQ(with("null"), "");
  EXPECT_EQ(with("[]"), "");
  EXPECT_EQ(with("[not_a_figure_of_the_task]"),
            "not_a_figure_of_the_task=not_a_figure_of_the_task");
}

TEST_F(SweepColumnKeys, AnInheritedListIsReplaced) {
  folder_.write(
      "parent.yaml",
      "base: base.yaml\ncolumns: [top5, {name: loss, label: L}]\nvariants: [{name: a}]\n");
  const std::string child = "base_sweep: parent.yaml\n";
  EXPECT_EQ(load(child), "top5=top5 loss=L");
  EXPECT_EQ(load(child + "columns: [{name: top5, label: five}]\n"), "top5=five");
  EXPECT_EQ(load(child + "columns: null\n"), "");
  EXPECT_EQ(load(child + "columns: []\n"), "");
}

TEST_F(SweepColumnKeys, ErrorsNameLineAndColumn) {
  const std::pair<const char*, std::vector<const char*>> cases[] = {
      {"top5", {"s.yaml:2:10", "columns must be a list like [top5, ", "not 'top5'"}},
      {"{name: top5}", {"s.yaml:2:10", "columns must be a list", "not a map"}},
      {"[[top5]]", {"s.yaml:2:11", "a column is a map of name, label, not a list"}},
      {"['']", {"s.yaml:2:11", "columns is empty"}},
      {"[null]", {"s.yaml:2:11"}},
      {"[top 5]",
       {"s.yaml:2:11",
        "columns 'top 5' cannot name a value of evaluations: use letters, digits and _ - + ."}},
      {"[\"a\\nb\"]", {"s.yaml:2:11", "single line"}},
      {"[{label: x}]", {"s.yaml:2:11", "this column has no name"}},
      {"[{name: null}]", {"s.yaml:2:11", "this column has no name"}},
      {"[{name: a, labl: x}]",
       {"s.yaml:2:21", "unknown key 'labl'; did you mean 'label'?",
        "Keys of a column: name, label"}},
      {"[{name: a/b}]", {"s.yaml:2:18", "name 'a/b' cannot name a value of evaluations"}},
      {"[{name: ''}]", {"s.yaml:2:18", "name is empty"}},
      {"[{name: [a]}]", {"s.yaml:2:18", "name must be text, not a list"}},
      {"[{name: a, label: ''}]", {"s.yaml:2:28", "label is empty"}},
      {"[a, b, a]", {"s.yaml:2:17", "columns: 'a' is there twice"}},
      {"[a, {name: a, label: b}]", {"s.yaml:2:21", "columns: 'a' is there twice"}},
  };
  for (const auto& [columns, parts] : cases) {
    SCOPED_TRACE(columns);
    const std::string message = error_of([&, text = std::string(columns)] { with(text); });
    for (const char* part : parts) expect_contains(message, part);
  }
  expect_contains(error_of([&] { load("column: [a]\nbase: base.yaml\nvariants: [{name: a}]\n"); }),
                  "s.yaml:1:1: unknown key 'column'; did you mean 'columns'?");
}

}  // namespace
}  // namespace dtn::testing
