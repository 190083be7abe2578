# SPDX-License-Identifier: MIT
# The texts of src/cuda/kernels/*.cuh: a header that names them, made now, and a source, made when one of them changes.
set(kernels_folder ${PROJECT_BINARY_DIR}/generated)
file(GLOB kernels CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/cuda/kernels/*.cuh)
file(GLOB kernel_parts CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/cuda/kernels/*/*)
set(kernel_names "extern const char* const prelude;\n")
foreach(kernel ${kernels})
  get_filename_component(name ${kernel} NAME_WE)
  string(APPEND kernel_names "extern const char* const ${name};\n")
endforeach()
file(CONFIGURE OUTPUT ${kernels_folder}/cuda/kernels/texts.h CONTENT
"#pragma once

// src/cuda/kernels/*.cuh, embedded by cmake/embed_kernels.cmake.
namespace ebb::cuda::texts {

${kernel_names}
}  // namespace ebb::cuda::texts
")
set(kernel_texts ${kernels_folder}/cuda/kernels/texts.cc)
add_custom_command(OUTPUT ${kernel_texts} DEPENDS ${kernels} ${kernel_parts} ${PROJECT_SOURCE_DIR}/cmake/embed_kernels.cmake
                   COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR}/src -DOUT=${kernel_texts}
                           -P ${PROJECT_SOURCE_DIR}/cmake/embed_kernels.cmake
                   COMMENT "Embedding CUDA kernels")
