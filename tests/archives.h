// Writes the archives that tests read.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace dtn::test {

// A tar archive, member by member.
class TarFile {
 public:
  using Header = std::array<char, 512>;

  static void set(Header& h, std::size_t at, std::string_view text) {
    std::memcpy(&h[at], text.data(), text.size());
  }
  static void set_checksum(Header& h) {
    set(h, 148, "        ");
    unsigned sum = 0;
    for (char c : h) sum += static_cast<unsigned char>(c);
    std::snprintf(&h[148], 8, "%06o", sum);
  }

  // Adds a member. `change` may edit its header before the checksum is computed.
  TarFile& add(const std::string& name, std::string_view content, char type = '0',
               const std::function<void(Header&)>& change = {}) {
    Header h{};
    set(h, 0, std::string_view(name).substr(0, 100));
    set(h, 100, "0000644");
    std::snprintf(&h[124], 12, "%011o", static_cast<unsigned>(content.size()));
    h[156] = type;
    set(h, 257, std::string_view("ustar\00000", 8));
    if (change) change(h);
    set_checksum(h);
    block(std::string_view(h.data(), h.size()));
    block(content);
    return *this;
  }
  static std::string pax(const std::string& key, const std::string& value) {
    const std::size_t rest = key.size() + value.size() + 3;  // " ", "=" and the line break
    std::size_t size = rest + 1;
    while (std::to_string(size).size() + rest != size) ++size;
    return std::to_string(size) + " " + key + "=" + value + "\n";
  }
  // Appends content, padded to whole blocks.
  TarFile& block(std::string_view content) {
    bytes_ += content;
    bytes_.resize((bytes_.size() + 511) / 512 * 512);
    return *this;
  }
  const std::string& without_end() const { return bytes_; }
  std::string bytes() const { return bytes_ + std::string(1024, '\0'); }

 private:
  std::string bytes_;
};

}  // namespace dtn::test
