#include "io/sha256.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>

namespace dtn {
namespace {

void add_text(Sha256& hash, std::string_view text) {
  hash.add(std::as_bytes(std::span(text.data(), text.size())));
}

std::string sha256_of(std::string_view text) {
  Sha256 hash;
  add_text(hash, text);
  return hash.hex();
}

// Examples of FIPS 180-2, appendix B.
TEST(Sha256, GivesThePublishedDigests) {
  EXPECT_EQ(sha256_of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_of(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// Lengths around a block of 64 bytes and its 55 bytes of text, cut into pieces of every size.
TEST(Sha256, DoesNotDependOnThePieces) {
  for (std::size_t length : {1u, 54u, 55u, 56u, 63u, 64u, 65u, 119u, 120u, 128u, 200u}) {
    std::string text(length, '\0');
    for (std::size_t i = 0; i < length; ++i) text[i] = static_cast<char>(i * 37 + length);
    const std::string whole = sha256_of(text);
    for (std::size_t piece = 1; piece <= length; ++piece) {
      Sha256 hash;
      for (std::size_t at = 0; at < length; at += piece) {
        add_text(hash, std::string_view(text).substr(at, piece));
      }
      ASSERT_EQ(hash.hex(), whole) << length << " bytes in pieces of " << piece;
    }
  }
}

TEST(Sha256, GoesOnAfterADigest) {
  Sha256 hash;
  add_text(hash, "ab");
  EXPECT_NE(hash.hex(), sha256_of("abc"));
  add_text(hash, "c");
  EXPECT_EQ(hash.hex(), sha256_of("abc"));
}

}  // namespace
}  // namespace dtn
