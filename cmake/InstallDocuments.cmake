# Run by `cmake --install`: the programs write their manual pages, and the shells' completion. Needs
# `source`, `programs` (the folder of the built ones) and `out`.
function(written_by program file)
  execute_process(COMMAND ${programs}/${program} ${ARGN} OUTPUT_FILE ${out}/${file}
                  RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "${program} ${ARGN} failed: ${failed}")
  endif()
endfunction()

file(REMOVE_RECURSE ${out})
file(MAKE_DIRECTORY ${out}/man1 ${out}/bash ${out}/zsh ${out}/fish)
written_by(dtn-info bash/dtn --completion bash)
written_by(dtn-info zsh/_dtn --completion zsh)
written_by(dtn-info fish/dtn --completion fish)
file(GLOB stems RELATIVE ${source}/tools ${source}/tools/dtn_*.cpp)
foreach(stem IN LISTS stems)
  string(REGEX REPLACE "(.*)[.]cpp" "\\1" program ${stem})
  string(REPLACE "_" "-" program ${program})
  written_by(${program} man1/${program}.1 --man)
  # Bash and fish look for a file of the program's name.
  file(COPY_FILE ${out}/bash/dtn ${out}/bash/${program})
  file(COPY_FILE ${out}/fish/dtn ${out}/fish/${program}.fish)
endforeach()
file(REMOVE ${out}/bash/dtn ${out}/fish/dtn)
