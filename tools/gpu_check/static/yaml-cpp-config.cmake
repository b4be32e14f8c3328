# Debian's package names the shared library; the static one lies beside it.
find_library(YAML_CPP_STATIC libyaml-cpp.a REQUIRED)
find_path(YAML_CPP_HEADERS yaml-cpp/yaml.h REQUIRED)
if(NOT TARGET yaml-cpp)
  add_library(yaml-cpp STATIC IMPORTED)
  set_target_properties(yaml-cpp PROPERTIES IMPORTED_LOCATION "${YAML_CPP_STATIC}"
    INTERFACE_INCLUDE_DIRECTORIES "${YAML_CPP_HEADERS}")
endif()
