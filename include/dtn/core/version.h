// Version of the library that a program is linked with.
#pragma once

// The library.
namespace dtn {

// For instance "0.1.0".
const char* version();

}  // namespace dtn
