# Run by `cmake --install`: the program writes its manual pages, and the shells' completion. Needs
# `programs` (the folder of the built program and of its links) and `out`.
function(written_by program file)
  execute_process(COMMAND ${programs}/${program} ${ARGN} OUTPUT_FILE ${out}/${file}
                  RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "${program} ${ARGN} failed: ${failed}")
  endif()
endfunction()

file(REMOVE_RECURSE ${out})
file(MAKE_DIRECTORY ${out}/man1 ${out}/bash ${out}/zsh ${out}/fish)
written_by(dtn bash/dtn info --completion bash)
written_by(dtn zsh/_dtn info --completion zsh)
written_by(dtn fish/dtn.fish info --completion fish)
written_by(dtn man1/dtn.1 --man)
foreach(command IN LISTS commands)
  set(program dtn-${command})
  written_by(${program} man1/${program}.1 --man)
  # Bash and fish look for a file of the program's name.
  file(COPY_FILE ${out}/bash/dtn ${out}/bash/${program})
  file(COPY_FILE ${out}/fish/dtn.fish ${out}/fish/${program}.fish)
endforeach()
