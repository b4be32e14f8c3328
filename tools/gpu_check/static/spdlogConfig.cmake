# Debian has spdlog and fmt only as shared libraries; their headers also work without a library.
find_package(Threads REQUIRED)
find_path(SPDLOG_HEADERS spdlog/spdlog.h REQUIRED)
if(NOT TARGET spdlog::spdlog)
  add_library(spdlog::spdlog INTERFACE IMPORTED)
  set_target_properties(spdlog::spdlog PROPERTIES
    INTERFACE_COMPILE_DEFINITIONS "SPDLOG_FMT_EXTERNAL;FMT_HEADER_ONLY=1"
    INTERFACE_INCLUDE_DIRECTORIES "${SPDLOG_HEADERS}"
    INTERFACE_LINK_LIBRARIES Threads::Threads)
endif()
