// Reports of runs, from run folders as dtn-train writes them.
#include <gtest/gtest.h>

#include "apps/report/run_figures.h"
#include "dtn/core/check.h"
#include "io/image/image_encode.h"
#include "temp_folder.h"
#include "texts.h"

namespace dtn {
namespace {

namespace fs = std::filesystem;
using test::expect_contains;
using test::TempFolder;

class RunReports : public ::testing::Test {
 protected:
  void write(const fs::path& file, const std::string& text) const { folder_.write(file, text); }
  std::string read(const fs::path& file) const { return folder_.read(file); }
  // Writes a run of two epochs with a truncated last line.
  void write_run(const fs::path& run, double top1) const {
    write(run / "config.yaml", "name: small <run>\nseed: 0\n");
    std::string lines;
    for (int epoch : {1, 2}) {
      lines += cat(R"({"step":)", 10 * epoch, R"(,"epoch":)", epoch,
                   R"(,"loss":2.5,"lr":0.001,"grad_norm":1.5,"images_per_second":100})", "\n",
                   R"({"step":)", 10 * epoch, R"(,"epoch":)", epoch, R"(,"split":"val","top1":)",
                   top1 - 2 + epoch, R"(,"top5":99,"loss":1.25,"count":80})", "\n");
    }
    write(run / "metrics.jsonl", lines + "{\"step\":3");
  }

  TempFolder folder_;
};

TEST_F(RunReports, ShowProgressOfRun) {
  write_run("run", 61.5);
  write_run_report(folder_.path() / "run");
  const std::string page = read("run/report.html");
  expect_contains(page, "<title>small &lt;run&gt;</title>");
  expect_contains(page, "In progress at step 20, epoch 2.");
  expect_contains(page, "<dt>Best top-1</dt><dd class=\"value\">61.50 %</dd>");
  expect_contains(page, "Evaluation: top-1");
  expect_contains(page, "Loss: training and evaluation");
  expect_contains(page, "<pre tabindex=\"0\">name: small &lt;run&gt;");
  EXPECT_EQ(page.find("Inside"), std::string::npos) << "nothing else was logged";
  EXPECT_EQ(page.find("<run>"), std::string::npos) << "names are escaped";
}

TEST_F(RunReports, ShowPicturesOfRun) {
  write_run("run", 61.5);
  for (int step = 1; step <= 11; ++step) {
    Image image;
    image.reshape(16, 8, 1);
    std::fill(image.pixels.begin(), image.pixels.end(), static_cast<std::uint8_t>(step));
    std::vector<std::byte> png;
    encode_png(image, png);
    write(cat("run/samples/step-", step < 10 ? "0000000" : "000000", step, ".png"),
          {reinterpret_cast<const char*>(png.data()), png.size()});
  }
  write("run/samples/step-00000012.png.tmp", "not a picture");
  write("run/samples/step-12.png", "not a picture");
  const RunRecord record = read_run_record(folder_.path() / "run");
  std::vector<std::int64_t> steps;
  for (const auto& [step, png] : record.pictures) steps.push_back(step);
  EXPECT_EQ(steps, (std::vector<std::int64_t>{1, 3, 5, 7, 9, 11}));
  write_run_report(folder_.path() / "run");
  const std::string page = read("run/report.html");
  expect_contains(page, "Samples of the model");
  expect_contains(page, "drawn with the weights after step 11");
  expect_contains(page, "Samples over the run");
  expect_contains(page, "step 3<");
  EXPECT_EQ(page.find("step 2<"), std::string::npos);
}

TEST_F(RunReports, LeaveOutDamagedPictures) {
  write_run("run", 61.5);
  write("run/samples/step-00000010.png", "damaged");
  write_run_report(folder_.path() / "run");
  EXPECT_EQ(read("run/report.html").find("Samples of the model"), std::string::npos);
}

TEST_F(RunReports, ShowOptionalLogsOfRun) {
  write_run("run", 61.5);
  write("run/gradients.jsonl",
        "{\"step\":10,\"epoch\":1,\"gradient_norm\":{\"blocks.0\":0.5,\"head\":2}}\n"
        "{\"step\":20,\"epoch\":2,\"gradient_norm\":{\"blocks.0\":null,\"head\":1}}\n");
  write("run/norms.jsonl",
        "{\"step\":0,\"epoch\":0,\"lambda_mean\":[[[0.5,0.5],null]],\"lambda_var\":[null]}\n"
        "{\"step\":20,\"epoch\":2,\"lambda_mean\":[[[0.25,0.75],null]],\"lambda_var\":[null]}\n");
  write("run/summary.json", "{\"wall_seconds\":75,\"device\":\"cpu, 2 threads\"}");
  write_run_report(folder_.path() / "run");
  const std::string page = read("run/report.html");
  expect_contains(page, "Finished at step 20");
  expect_contains(page,
                  "<dd class=\"value\">1 min 15 s</dd><dd class=\"note\">cpu, 2 threads</dd>");
  expect_contains(page, "Gradient norm in each part of the model");
  expect_contains(page, "blocks.0");
  expect_contains(page, "over training: small &lt;run&gt;");
}

TEST_F(RunReports, ShowThatRunDiverged) {
  write_run("run", 61.5);
  write("run/summary.json",
        "{\"diverged\":true,\"steps\":27,\"last_checkpoint\":\"checkpoints/step-00000020\"}");
  write_run_report(folder_.path() / "run");
  const std::string page = read("run/report.html");
  expect_contains(page,
                  "Diverged at step 27. The newest checkpoint with a finite loss is "
                  "checkpoints/step-00000020.");
  EXPECT_EQ(page.find("Finished"), std::string::npos);
  const RunGroup group{"small", {read_run_record(folder_.path() / "run")}};
  expect_contains(comparison_page("One", {&group, 1}, {}), "<td>2, diverged at step 27</td>");

  write("run/summary.json", "{\"diverged\":true,\"steps\":27,\"last_checkpoint\":null}");
  write_run_report(folder_.path() / "run");
  expect_contains(read("run/report.html"), "step 27. No checkpoint has a finite loss.");
  write("run/summary.json", "{\"diverged\":false,\"steps\":20}");
  write_run_report(folder_.path() / "run");
  expect_contains(read("run/report.html"), "Finished at step 20");
}

TEST_F(RunReports, ShowWarnings) {
  write_run("run", 61.5);
  write("run/warnings.jsonl",
        "{\"step\":10,\"epoch\":1,\"name\":\"equal_outputs\",\"text\":\"all are <equal>\"}\n{\"st");
  write_run_report(folder_.path() / "run");
  expect_contains(read("run/report.html"), "<li>Warning at step 10: all are &lt;equal&gt;.</li>");
}

TEST_F(RunReports, ShowFiguresOfSelfDistillation) {
  write_run("run", 61.5);
  write("run/config.yaml", "name: small\ntask: dino\ndino:\n  out_dim: 1024\n");
  write("run/metrics.jsonl",
        read("run/metrics.jsonl") + "\n" +
            R"({"step":30,"epoch":3,"loss":6.5,"teacher_entropy":4.5,"center_norm":1.25,)"
            R"("loss_global":6.25,"loss_local":6.75,"weight_decay":0.1,"teacher_momentum":0.996,)"
            R"("teacher_temp":0.04,"own_term":3})"
            "\n");
  write_run_report(folder_.path() / "run");
  const std::string page = read("run/report.html");
  expect_contains(page, "<dt>k-NN top-1 of the teacher</dt><dd class=\"value\">61.50 %</dd>");
  expect_contains(page, "Evaluation: k-NN top-1 of the teacher");
  expect_contains(page, "ln 1024 = 6.931: all outputs are equal</text>");
  expect_contains(page, "0: one output takes all</text>");
  for (const char* name :
       {"teacher_entropy", "center_norm", "training_loss_global", "training_loss_local",
        "weight_decay", "teacher_momentum", "teacher_temp", "training_own_term"}) {
    expect_contains(page, cat("<figure id=\"", name, "\" class=\"cell\""));
  }
}

TEST_F(RunReports, ShowNearestNeighbours) {
  write_run("run", 61.5);
  const std::string json =
      R"({"columns":2,"width":3,"height":2,"rows":[)"
      R"({"index":5,"label":1,"class":"tench, Tinca tinca","vote":1,"vote_class":"tench",)"
      R"("neighbors":[{"index":7,"label":1,"class":"tench","similarity":0.98765}]},)"
      R"({"index":6,"label":2,"class":null,"vote":1,"vote_class":"tench",)"
      R"("neighbors":[{"index":8,"label":1,"class":"<tench>","similarity":0.5}]}]})";
  Image sheet;
  sheet.reshape(3 + 2 + 3, 2 + 2 + 2, 3);
  std::vector<std::byte> png;
  encode_png(sheet, png);
  write("run/neighbors.json", json);
  write("run/neighbors.png", {reinterpret_cast<const char*>(png.data()), png.size()});
  write_run_report(folder_.path() / "run");
  const std::string page = read("run/report.html");
  expect_contains(page, "<li><a href=\"#neighbors\">Nearest neighbours</a></li>");
  expect_contains(page, ">tench<small>");
  expect_contains(page, "aria-label=\"right\">\xE2\x9C\x93</span> vote: tench");
  expect_contains(page, "aria-label=\"right\">\xE2\x9C\x93</span> 0.9877");
  expect_contains(page, ">class 2<small>");
  expect_contains(page, "aria-label=\"wrong\">\xE2\x9C\x97</span> 0.5000");
  expect_contains(page, "&lt;tench&gt;");

  // The description of another picture, or none.
  for (const std::string& other :
       {std::string("{"), std::string("[]"), std::string(R"({"rows":[{}]})"),
        std::string(json).replace(json.find("\"width\":3"), 9, "\"width\":4"),
        std::string(json).replace(json.find(",\"vote_class\""), 1, "}, {")}) {
    write("run/neighbors.json", other);
    write_run_report(folder_.path() / "run");
    EXPECT_EQ(read("run/report.html").find("Nearest neighbours"), std::string::npos) << other;
  }
  write("run/neighbors.json", json);
  write("run/neighbors.png", "no picture");
  write_run_report(folder_.path() / "run");
  EXPECT_EQ(read("run/report.html").find("Nearest neighbours"), std::string::npos);
}

TEST_F(RunReports, ShowNeighboursWithoutLabelsByName) {
  write_run("run", 61.5);
  Image sheet;
  sheet.reshape(3 + 2 + 3, 2, 3);
  std::vector<std::byte> png;
  encode_png(sheet, png);
  write(
      "run/neighbors.json",
      R"({"columns":2,"width":3,"height":2,"rows":[)"
      R"({"index":5,"name":"a.png","label":null,"class":null,"vote":null,"vote_class":null,)"
      R"("neighbors":[{"index":7,"name":"b.png","label":null,"class":null,"similarity":0.5}]}]})");
  write("run/neighbors.png", {reinterpret_cast<const char*>(png.data()), png.size()});
  write_run_report(folder_.path() / "run");
  const std::string page = read("run/report.html");
  expect_contains(page, ">a.png<small></small>");
  expect_contains(page, ">b.png<small>0.5000</small>");
  expect_contains(page, "Below a training image: its name, and the cosine");
  for (const char* absent : {"aria-label=\"right\"", "aria-label=\"wrong\"", "vote"}) {
    EXPECT_EQ(page.find(absent), std::string::npos) << absent;
  }
}

TEST_F(RunReports, SayHowToSeeNeighbours) {
  write_run("run", 61.5);
  const std::string folder = (folder_.path() / "run").string();
  const std::string command = "dtn-eval --checkpoint " + folder + " --task knn --save-neighbors";
  const auto page = [&](const std::string& config) {
    write("run/config.yaml", config);
    write_run_report(folder);
    return read("run/report.html");
  };
  expect_contains(page("task: dino\n"), command);
  EXPECT_EQ(page("task: classify\n").find("--save-neighbors"), std::string::npos);
}

TEST_F(RunReports, NameEvaluationsByTheirCommonTask) {
  write_run("a", 60);
  write_run("b", 62);
  write("a/config.yaml", "task: supcon\n");
  write("b/config.yaml", "task: supcon\n");
  const auto title = [&] {
    std::vector<RunGroup> groups;
    for (const char* run : {"a", "b"}) {
      groups.push_back({run, {read_run_record(folder_.path() / run)}});
    }
    return curve_figures(groups).at(0).title;
  };
  EXPECT_EQ(title(), "Evaluation: k-NN top-1");
  write("b/config.yaml", "task: classify\n");
  EXPECT_EQ(title(), "Evaluation: top-1");
  write("b/config.yaml", "no: [config");
  EXPECT_EQ(read_run_record(folder_.path() / "b").name, "b");
}

TEST_F(RunReports, CompareSeedsOfVariants) {
  write_run("sweep/ln/seed-0", 60);
  write_run("sweep/ln/seed-1", 62);
  write_run("other", 70);
  const auto folders = run_folders(folder_.path() / "sweep/ln");
  ASSERT_EQ(folders.size(), 2u);
  RunGroup ln{"ln", {}}, other{"other", {}};
  for (const fs::path& run : folders) ln.runs.push_back(read_run_record(run));
  other.runs.push_back(read_run_record(folder_.path() / "other"));
  const std::vector<RunGroup> groups = {ln, other};
  const auto figures = curve_figures(groups);
  ASSERT_FALSE(figures.empty());
  EXPECT_EQ(figures[0].name, "val_top1");
  ASSERT_EQ(figures[0].table.rows.size(), 2u);
  EXPECT_EQ(figures[0].table.rows[0][0], "ln") << "the order of the groups, not of the results";
  EXPECT_EQ(figures[0].table.rows[0][2], "61") << "the mean of the seeds";
  const std::string page = comparison_page("Two", groups, figures);
  expect_contains(page, "<td>ln</td><td>2</td><td>2</td><td>61.00</td>");
}

TEST_F(RunReports, RejectFoldersWithoutRun) {
  EXPECT_THROW(read_run_record(folder_.path() / "absent"), DataError);
  write("empty/metrics.jsonl", "");
  const RunGroup group{{}, {read_run_record(folder_.path() / "empty")}};
  EXPECT_TRUE(curve_figures({&group, 1}).empty());
}

}  // namespace
}  // namespace dtn
