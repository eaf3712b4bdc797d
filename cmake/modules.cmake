# Joins JavaScript modules (CommonJS) into one file in which each waits under its name for src/report/page/modules.js to make it:
# cmake -DOUTPUT=... -DNOTICE=... "-DMODULES=name=file;..." -P modules.cmake
file(READ ${NOTICE} notice)
file(WRITE ${OUTPUT} "/*\n${notice}*/\n")
foreach(pair ${MODULES})
  string(REGEX MATCH "^([^=]+)=(.*)$" pair ${pair})
  set(name ${CMAKE_MATCH_1})
  file(READ ${CMAKE_MATCH_2} text)
  string(REGEX REPLACE "//# sourceMappingURL=[^\n]*\n?" "" text "${text}")
  file(APPEND ${OUTPUT} "modules.sources[\"${name}\"] = function (exports, module, require) {\n${text}\n};\n")
endforeach()
