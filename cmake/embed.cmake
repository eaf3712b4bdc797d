# Puts files into the program. `crosshead_embed(VARIABLE name=file ...)` makes C sources that define
# `const unsigned char ch_embedded_NAME[]` (NUL-terminated) for each file, remade when the file changes, and puts their paths into
# VARIABLE. `crosshead_embed_table(VARIABLE NAME FILE...)` makes one source that defines `const ch_embedded_text ch_embedded_NAME[]`
# (base/embedded_text.h), the names without endings and the texts of all files. The name of a file in a folder that is not called NAME
# is "FOLDER:FILE". Run as a script (cmake -P) this file does the conversion.
if(CMAKE_SCRIPT_MODE_FILE)
  if(EMBED_FILES)
    set(texts)
    set(table)
    foreach(input ${EMBED_FILES})
      get_filename_component(name ${input} NAME_WE)
      get_filename_component(folder ${input} DIRECTORY)
      get_filename_component(folder ${folder} NAME)
      string(MAKE_C_IDENTIFIER text_${folder}_${name} identifier)
      if(NOT folder STREQUAL EMBED_NAME)
        string(PREPEND name "${folder}:")
      endif()
      file(READ ${input} bytes HEX)
      string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
      string(APPEND texts "static const unsigned char ${identifier}[] = {${bytes}0};\n")
      string(APPEND table "    {\"${name}\", ${identifier}},\n")
    endforeach()
    file(WRITE ${EMBED_OUTPUT}
      "/* Texts, made by cmake/embed.cmake. */\n#include \"base/embedded_text.h\"\n\n#include <stddef.h>\n\n${texts}\nconst ch_embedded_text ch_embedded_${EMBED_NAME}[] = {\n${table}    {NULL, NULL}};\n")
    return()
  endif()
  file(READ ${EMBED_INPUT} bytes HEX)
  string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  get_filename_component(name ${EMBED_INPUT} NAME)
  file(WRITE ${EMBED_OUTPUT}
    "/* ${name}, made by cmake/embed.cmake. */\n#include \"report/embedded.h\"\n\nconst unsigned char ch_embedded_${EMBED_NAME}[] = {\n${bytes}0};\n")
  return()
endif()

set(crosshead_embed_script ${CMAKE_CURRENT_LIST_FILE})
function(crosshead_embed variable)
  set(outputs)
  foreach(pair ${ARGN})
    string(REGEX MATCH "^([^=]+)=(.*)$" pair ${pair})
    set(name ${CMAKE_MATCH_1})
    set(input ${CMAKE_MATCH_2})
    set(output ${CMAKE_CURRENT_BINARY_DIR}/embedded/${name}.c)
    add_custom_command(OUTPUT ${output}
      COMMAND ${CMAKE_COMMAND} -DEMBED_INPUT=${input} -DEMBED_OUTPUT=${output} -DEMBED_NAME=${name} -P ${crosshead_embed_script}
      DEPENDS ${input} ${crosshead_embed_script} VERBATIM)
    list(APPEND outputs ${output})
  endforeach()
  set(${variable} ${outputs} PARENT_SCOPE)
endfunction()

function(crosshead_embed_table variable name)
  set(output ${CMAKE_CURRENT_BINARY_DIR}/embedded/${name}.c)
  list(SORT ARGN)
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} "-DEMBED_FILES=${ARGN}" -DEMBED_OUTPUT=${output} -DEMBED_NAME=${name} -P ${crosshead_embed_script}
    DEPENDS ${ARGN} ${crosshead_embed_script} VERBATIM)
  set(${variable} ${output} PARENT_SCOPE)
endfunction()
