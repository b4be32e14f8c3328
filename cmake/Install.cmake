# What `cmake --install` and `cpack` make: programs, the library for users' own programs with its
# public headers, the MPI module, configs. Programs look for their files beside themselves, so the
# whole may be moved.
include(CMakePackageConfigHelpers)

# What a program needs, as one library to link: dtn::dtn.
add_library(dtn INTERFACE)
add_library(dtn::dtn ALIAS dtn)
target_link_libraries(dtn INTERFACE dtn_apps)
target_compile_features(dtn INTERFACE cxx_std_20)
get_property(layers GLOBAL PROPERTY DTN_LAYERS)
install(TARGETS dtn ${layers} EXPORT dtnTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/dtn DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/dtn)
install(EXPORT dtnTargets NAMESPACE dtn:: DESTINATION ${package})
configure_package_config_file(cmake/dtnConfig.cmake.in dtnConfig.cmake
  INSTALL_DESTINATION ${package})
write_basic_package_version_file(dtnConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/dtnConfig.cmake ${PROJECT_BINARY_DIR}/dtnConfigVersion.cmake
              cmake/installation_prefix.cpp.in cmake/FindWebP.cmake
        DESTINATION ${package})

install(DIRECTORY configs DESTINATION share/dtn)
install(FILES tools/pytorch/dtn_torch.py DESTINATION share/dtn/pytorch)
install(FILES tools/dtn-mpirun.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
# A build for another processor cannot run its programs, and installs neither of these.
if(NOT CMAKE_CROSSCOMPILING)
  set(documents ${PROJECT_BINARY_DIR}/generated/documents)
  install(CODE "set(out ${documents})\nset(commands ${DTN_COMMANDS})
set(programs ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})")
  install(SCRIPT cmake/InstallDocuments.cmake)
  install(DIRECTORY ${documents}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR})
  install(DIRECTORY ${documents}/bash/ DESTINATION share/bash-completion/completions)
  install(DIRECTORY ${documents}/zsh/ DESTINATION share/zsh/site-functions)
  install(DIRECTORY ${documents}/fish/ DESTINATION share/fish/vendor_completions.d)
endif()
install(FILES README.md CHANGELOG.md DESTINATION share/doc/dtn)
install(FILES LICENSE DESTINATION share/doc/dtn RENAME copyright)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_VENDOR "dtn")
set(CPACK_PACKAGE_CONTACT "The authors of dtn <dtn@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY ${PROJECT_DESCRIPTION})
set(CPACK_PACKAGE_INSTALL_DIRECTORY dtn)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
find_program(SHLIBDEPS dpkg-shlibdeps)
if(SHLIBDEPS)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
else()
  set(CPACK_DEBIAN_PACKAGE_DEPENDS
      "libstdc++6, libgomp1, libdnnl2, libyaml-cpp0.7, libspdlog1.10, libjpeg62-turbo, "
      "libpng16-16, libwebp7, libwebpdemux2, zlib1g")
endif()
# dtn-get loads libcurl at its first use.
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS
    "libcurl4t64 | libcurl4, ca-certificates, openmpi-bin, librsvg2-bin, fonts-dejavu-core")
# To build programs of one's own.
string(CONCAT CPACK_DEBIAN_PACKAGE_SUGGESTS
  "g++, cmake, libdnnl-dev, ocl-icd-opencl-dev, libyaml-cpp-dev, libspdlog-dev, libjpeg-dev, "
  "libpng-dev, libwebp-dev, zlib1g-dev")
include(CPack)
