#include "apps/predict/output_paths.h"

#include <map>
#include <string>
#include <system_error>

#include "dtn/core/check.h"
#include "io/atomic_file.h"
#include "io/image/image_encode.h"

namespace dtn::app {
namespace {

namespace fs = std::filesystem;

// Returns the place of a file that need not exist, without links and "..".
fs::path place_of(const fs::path& path) { return fs::weakly_canonical(fs::absolute(path)); }

}  // namespace

std::vector<fs::path> output_paths(const std::vector<InputPicture>& inputs,
                                   const fs::path& folder) {
  std::map<fs::path, std::string> input_at;               // place -> path as the user knows it
  std::vector<fs::path> places;                           // of the inputs
  std::map<fs::path, std::map<fs::path, int>> inputs_of;  // picture -> places of its inputs
  const auto brief = [&](const InputPicture& input) {
    return folder / fs::path(input.name).replace_extension(".png");
  };
  for (const InputPicture& input : inputs) {
    places.push_back(place_of(input.file));
    input_at.emplace(places.back(), input.file);
    ++inputs_of[brief(input)][places.back()];
  }
  std::vector<fs::path> paths;
  std::map<fs::path, std::size_t> made;  // picture -> an input
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    fs::path path = brief(inputs[i]);
    if (inputs_of[path].size() > 1) path = folder / (inputs[i].name + ".png");
    if (const auto input = input_at.find(place_of(path)); input != input_at.end()) {
      throw ConfigError(cat("--output ", folder.string(), ": the picture of ", inputs[i].file,
                            " would replace the image ", input->second, "; choose another folder"));
    }
    const auto [first, is_new] = made.emplace(path, i);
    if (!is_new && places[first->second] != places[i]) {
      throw ConfigError(cat("--output ", folder.string(), ": ", inputs[first->second].file, " and ",
                            inputs[i].file, " would have the same picture, ", path.string(),
                            "; name the folder above both images, or run dtn-predict for each"));
    }
    paths.push_back(std::move(path));
  }
  return paths;
}

void make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw Error(cat("cannot make the folder ", folder.string(), ": ", error.message()));
}

void write_picture(const std::filesystem::path& path, const Image& picture) {
  std::vector<std::byte> png;
  encode_png(picture, png);
  make_folder(path.parent_path());
  write_file_atomic(path, {reinterpret_cast<const char*>(png.data()), png.size()});
}

}  // namespace dtn::app
