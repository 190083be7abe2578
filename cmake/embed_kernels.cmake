# SPDX-License-Identifier: MIT
# cmake -DSOURCE=src -DOUT=texts.cc -P embed_kernels.cmake: the kernels of src/cuda/kernels/*.cuh as strings of C++.
#
# A text is complete but for the prelude, which is a string of its own: what a kernel includes is put in its place, once.
# Texts have no namespace and no lines of comments; what only an editor needs (parts/editor.h, parts/element.h) is left
# out.
cmake_minimum_required(VERSION 3.25)
set(folder ${SOURCE}/cuda/kernels)

# Sets `text` to that of the file, and adds what went into it to `seen`. Lists are avoided: a `;` or `[` of C++ would
# divide or join their elements.
function(read_kernel name)
  list(APPEND seen ${name})
  file(READ ${folder}/${name} text)
  while("${text}" MATCHES "#include \"cuda/kernels/([a-z0-9_/.]+)\"\n")
    set(line "${CMAKE_MATCH_0}")
    set(included ${CMAKE_MATCH_1})
    string(FIND "${text}" "${line}" at)
    string(SUBSTRING "${text}" 0 ${at} before)
    string(LENGTH "${line}" length)
    math(EXPR at "${at} + ${length}")
    string(SUBSTRING "${text}" ${at} -1 after)
    set(body)
    if(NOT included IN_LIST seen)
      list(APPEND seen ${included})
      file(READ ${folder}/${included} body)
    endif()
    set(text "${before}${body}${after}")
  endwhile()
  foreach(line "#pragma once" "namespace ebb::cuda {" "}  // namespace ebb::cuda")
    string(REPLACE "${line}\n" "" text "${text}")
  endforeach()
  string(REGEX REPLACE "\n *//[^\n]*" "" text "\n${text}")
  string(REGEX REPLACE "\n\n+" "\n" text "${text}")
  set(text "${text}" PARENT_SCOPE)
  set(seen ${seen} PARENT_SCOPE)
endfunction()

set(seen parts/editor.h parts/element.h)
read_kernel(parts/prelude.cuh)
set(of_prelude ${seen})
set(code "const char* const prelude = R\"cuda(${text})cuda\";\n")
file(GLOB kernels RELATIVE ${folder} ${folder}/*.cuh)
foreach(kernel ${kernels})
  set(seen ${of_prelude})
  read_kernel(${kernel})
  get_filename_component(name ${kernel} NAME_WE)
  string(APPEND code "const char* const ${name} = R\"cuda(${text})cuda\";\n")
endforeach()
file(WRITE ${OUT} "#include \"cuda/kernels/texts.h\"\n\nnamespace ebb::cuda::texts {\n\n${code}\n}  // namespace ebb::cuda::texts\n")
