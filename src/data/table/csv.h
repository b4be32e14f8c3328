// Reads tables of text: comma-separated values as in RFC 4180, and the same with other delimiters.
// It knows nothing about the meaning of the columns.
//
// A field may be in double quotes. It then may hold delimiters, line breaks and doubled quotes.
// Lines end with LF, CRLF or CR. A byte order mark of UTF-8 and empty lines are skipped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/file.h"

namespace dtn {

struct CsvField {
  std::string_view text;  // without quotes
  bool quoted = false;
};

// Reads the records of a file one after another, with a buffer of bounded size.
//
// Every error is a DataError that begins with "<file>:<line>: ".
class CsvReader {
 public:
  // `file` must outlive the reader.
  CsvReader(const ByteSource& file, char delimiter);

  // Reads the next record that is not an empty line. Returns false at the end of the file. Throws
  // DataError for a quote that is out of place or not closed, a record of more than 1 MiB, a byte 0
  // and for text in UTF-16.
  bool next();
  // The fields of the record; at least one. Valid until the next call of next().
  std::span<const CsvField> fields() const { return fields_; }
  // The line where the record begins, from 1 on.
  std::int64_t line() const { return line_; }
  // Throws DataError: "<file>:<line>: <what>".
  [[noreturn]] void fail(const std::string& what) const { fail_at(line_, what); }
  [[noreturn]] void fail_at(std::int64_t line, const std::string& what) const;

 private:
  enum class Scan { kRecord, kNeedsMore };

  void skip_byte_order_mark();
  bool fill();
  Scan scan_record();
  Scan scan_field(CsvField& field);
  Scan scan_quoted(CsvField& field);
  Scan scan_plain(CsvField& field);
  Scan end_line(std::int64_t& lines);
  void remove_doubled_quotes();

  const ByteSource& file_;
  char delimiter_;
  std::int64_t read_ = 0;                  // bytes of the file that are or were in the buffer
  std::string buffer_;                     // the bytes from the start of the record on
  std::size_t begin_ = 0;                  // of the record, in the buffer
  std::size_t at_ = 0;                     // of the scan, in the buffer
  std::int64_t line_ = 1, next_line_ = 1;  // of the record, and of the scan
  std::vector<CsvField> fields_;
  std::vector<std::size_t> doubled_;  // the fields with doubled quotes
};

// Returns the delimiter of a file: a tab by the endings .tsv and .tab, else the first of the comma,
// the semicolon and the tab that stands in the first line outside quotes (for other endings than
// .csv, the tab goes first). Returns a comma if there is none.
char delimiter_of(const ByteSource& file);

// Returns a field as CsvReader reads it back, in quotes if it needs them.
std::string csv_field(std::string_view text);

}  // namespace dtn
