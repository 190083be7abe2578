# SPDX-License-Identifier: MIT
# Fails unless the text of PROGRAM stands in README.
file(READ ${PROGRAM} program)
string(REGEX REPLACE "^// SPDX[^\n]*\n" "" program "${program}")
file(READ ${README} readme)
string(STRIP "${program}" program)
string(FIND "${readme}" "${program}" at)
if(at EQUAL -1)
  message(FATAL_ERROR "${README} does not show ${PROGRAM} as it is")
endif()
