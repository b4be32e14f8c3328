#include "apps/common/help_format.h"

#include <gtest/gtest.h>

#include <sstream>

namespace dtn::app {
namespace {

TEST(HelpFormat, WrapsAtSpacesAndKeepsIndentation) {
  EXPECT_EQ(wrap_lines("one two three four", 9), "one two\nthree\nfour\n");
  EXPECT_EQ(wrap_lines("    one two three", 12), "    one two\n    three\n");
  EXPECT_EQ(wrap_lines("anextremelylongword two", 5), "anextremelylongword\ntwo\n");
  EXPECT_EQ(wrap_lines("a\n\nb", 5), "a\n\nb\n");
  EXPECT_EQ(wrap_lines("  dtn-train --config a_long_name --output b", 20),
            "  dtn-train --config a_long_name --output b\n");
}

struct Options {
  std::string config, print, suite, severity = "1-5", device = "auto";
  double minutes = 30;
  int count = 0;
  bool ema = false;
  std::vector<std::string> layers;
};

void add_to(CLI::App& app, Options& o) {
  app.add_option("--config,config", o.config, "config file or name");
  app.add_option("--minutes", o.minutes, "time for the run")
      ->check(CLI::Range(0.5, 60.0))
      ->capture_default_str();
  CLI::Option* suite = app.add_option("--suite", o.suite, "a robustness suite")
                           ->check(CLI::IsMember({"imagenet-c", "imagenet-r"}));
  app.add_option("--severity", o.severity, "how strong")->capture_default_str()->needs(suite);
  app.add_option("--device", o.device, "cpu, cuda or auto")->group(kMachineGroup);
  app.add_flag("--ema", o.ema, "the moving average");
  app.add_flag("--print{auto}", o.print, "the config")->check(CLI::IsMember({"auto", "plain"}));
  app.add_option("--count", o.count, "number of images")->required();
  app.add_option("--layers", o.layers,
                 "blocks, a long list of them that does not fit into one line");
  app.get_help_ptr()->group(kHelpGroup);
  format_help(app, 60);
}

TEST(HelpFormat, GroupsAndWrapsOptions) {
  CLI::App app{"Trains a model.\nOn a folder.", "dtn-test"};
  Options options;
  add_to(app, options);
  EXPECT_EQ(app.help(),
            "Trains a model. On a folder.\n"
            "\n"
            "Usage: dtn-test [OPTIONS] [config]\n"
            "\n"
            "Arguments:\n"
            "  config                the same as --config\n"
            "\n"
            "Options:\n"
            "  --config TEXT         config file or name\n"
            "  --minutes NUMBER      time for the run (0.5 to 60;\n"
            "                        default: 30)\n"
            "  --suite imagenet-c|imagenet-r\n"
            "                        a robustness suite\n"
            "  --ema                 the moving average\n"
            "  --print[=auto|plain]  the config\n"
            "  --count N             number of images (required)\n"
            "  --layers TEXT...      blocks, a long list of them that\n"
            "                        does not fit into one line\n"
            "\n"
            "With --suite:\n"
            "  --severity TEXT       how strong (default: 1-5)\n"
            "\n"
            "Machine:\n"
            "  --device TEXT         cpu, cuda or auto\n"
            "\n"
            "Help:\n"
            "  -h, --help            Print this help message and exit\n"
            "\n");
}

TEST(HelpFormat, NoLineIsWiderThanTheTerminal) {
  CLI::App app{"Trains a model.", "dtn-test"};
  Options options;
  add_to(app, options);
  std::istringstream lines(app.help());
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 60u) << line;
}

}  // namespace
}  // namespace dtn::app
