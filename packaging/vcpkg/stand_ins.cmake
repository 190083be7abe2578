# SPDX-License-Identifier: MIT
# What try.sh has instead of vcpkg: the functions that the port calls, as far as it needs them, for one release build with this
# system's libraries.
cmake_minimum_required(VERSION 3.25)

function(vcpkg_check_features)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" OUT_FEATURE_OPTIONS FEATURES)
  list(POP_FRONT arg_FEATURES feature option)
  if(feature IN_LIST FEATURES)
    set(${arg_OUT_FEATURE_OPTIONS} -D${option}=ON PARENT_SCOPE)
  else()
    set(${arg_OUT_FEATURE_OPTIONS} -D${option}=OFF PARENT_SCOPE)
  endif()
endfunction()

function(vcpkg_find_acquire_program name)
  find_program(${name} NAMES pkg-config REQUIRED)
  set(${name} ${${name}} PARENT_SCOPE)
endfunction()

function(vcpkg_cmake_configure)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" SOURCE_PATH OPTIONS)
  execute_process(COMMAND ${CMAKE_COMMAND} -S ${arg_SOURCE_PATH} -B ${BUILD} -G Ninja -DCMAKE_BUILD_TYPE=Release
                          -DCMAKE_INSTALL_PREFIX=${CURRENT_PACKAGES_DIR} -DCMAKE_INSTALL_LIBDIR=lib ${arg_OPTIONS}
                  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
endfunction()

function(vcpkg_cmake_install)
  execute_process(COMMAND ${CMAKE_COMMAND} --build ${BUILD} --target install OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# CMake's files move from lib/cmake/NAME to share/NAME, one level nearer to the root.
function(vcpkg_cmake_config_fixup)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "PACKAGE_NAME;CONFIG_PATH" "")
  set(share ${CURRENT_PACKAGES_DIR}/share/${arg_PACKAGE_NAME})
  file(MAKE_DIRECTORY ${CURRENT_PACKAGES_DIR}/share)
  file(RENAME ${CURRENT_PACKAGES_DIR}/${arg_CONFIG_PATH} ${share})
  file(GLOB files ${share}/*.cmake)
  foreach(file ${files})
    file(READ ${file} text)
    string(REPLACE "/../../../\"" "/../../\"" text "${text}")
    set(up "get_filename_component(_IMPORT_PREFIX \"\${_IMPORT_PREFIX}\" PATH)\n")
    string(REPLACE "${up}${up}${up}" "${up}${up}" text "${text}")
    file(WRITE ${file} "${text}")
  endforeach()
endfunction()

function(vcpkg_fixup_pkgconfig)
endfunction()

function(vcpkg_copy_tools)
  cmake_parse_arguments(PARSE_ARGV 0 arg AUTO_CLEAN "" TOOL_NAMES)
  foreach(tool ${arg_TOOL_NAMES})
    file(COPY ${CURRENT_PACKAGES_DIR}/bin/${tool} DESTINATION ${CURRENT_PACKAGES_DIR}/tools/${PORT})
  endforeach()
endfunction()

function(vcpkg_install_copyright)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "" FILE_LIST)
  configure_file(${arg_FILE_LIST} ${CURRENT_PACKAGES_DIR}/share/${PORT}/copyright COPYONLY)
endfunction()


