# Writes OUTPUT, the commit of SOURCE as a C string, when it has changed; "" without git or a repository.
cmake_policy(VERSION 3.22)
set(commit "")
find_program(git git)
if(git)
  execute_process(COMMAND ${git} -C ${SOURCE} describe --always --dirty --abbrev=12 --exclude=*
                  OUTPUT_VARIABLE commit ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
endif()
if(NOT commit MATCHES "^[0-9a-f]+(-dirty)?$")
  set(commit "")
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "/* The commit, by cmake/commit.cmake. */\n#include \"cli/record_run.h\"\n\nconst char ch_build_commit[] = \"@commit@\";\n" @ONLY)
