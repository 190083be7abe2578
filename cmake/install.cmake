# SPDX-License-Identifier: MIT
# cmake --install: headers, both libraries, find_package(ebb CONFIG) and pkg-config. The components development, static
# and shared can be installed by themselves.
include(CMakePackageConfigHelpers)

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ebb)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ebb DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)

install(TARGETS ebb EXPORT ebb-static ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT static)
install(TARGETS ebb_shared EXPORT ebb-shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT shared)
foreach(kind static shared)
  install(EXPORT ebb-${kind} NAMESPACE ebb:: FILE ebb-${kind}.cmake DESTINATION ${config_dir} COMPONENT ${kind})
endforeach()

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/ebb-config.cmake.in ${PROJECT_BINARY_DIR}/ebb-config.cmake
                              INSTALL_DESTINATION ${config_dir})
# Before version 1.0 every minor version may change the interface; from then on a program that asked for 1.2 builds with 1.3.
if(PROJECT_VERSION_MAJOR EQUAL 0)
  set(compatible SameMinorVersion)
else()
  set(compatible SameMajorVersion)
endif()
write_basic_package_version_file(${PROJECT_BINARY_DIR}/ebb-config-version.cmake COMPATIBILITY ${compatible})
install(FILES ${PROJECT_BINARY_DIR}/ebb-config.cmake ${PROJECT_BINARY_DIR}/ebb-config-version.cmake
        DESTINATION ${config_dir} COMPONENT development)

# Libraries that users of the static library link, too. As flags and not as required modules: those would ask for the libraries
# their shared forms were built from, too.
pkg_check_modules(EBB_PRIVATE REQUIRED QUIET fmt libhwy ${EBB_BLAS_MODULES} zlib libpng libjpeg)
list(JOIN EBB_PRIVATE_LDFLAGS " " private_libraries)
# Installed files may be moved, unless a distribution asked for absolute folders.
foreach(dir LIBDIR INCLUDEDIR)
  set(pc_${dir} "\${prefix}/${CMAKE_INSTALL_${dir}}")
  if(IS_ABSOLUTE "${CMAKE_INSTALL_${dir}}")
    set(pc_${dir} "${CMAKE_INSTALL_${dir}}")
  endif()
endforeach()
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  set(pc_prefix "${CMAKE_INSTALL_PREFIX}")
else()
  file(RELATIVE_PATH prefix_from_pc /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
  set(pc_prefix "\${pcfiledir}/${prefix_from_pc}")
endif()
configure_file(${PROJECT_SOURCE_DIR}/cmake/ebb.pc.in ${PROJECT_BINARY_DIR}/ebb.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/ebb.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
