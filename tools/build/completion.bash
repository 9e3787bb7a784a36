# bash completion for pollux. Made by tools/build/manual.py from what `pollux --help` knows.

# The words of a command: its subcommands, or its options, each with ":KIND" if it takes a value.
_pollux_words() {
  case $1 in
@CASES@
  esac
}

_pollux() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
  local command= word words kind= i
  COMPREPLY=()
  # Bash makes words of their own of "=" and what follows it.
  if [[ $current == = ]]; then
    current=
  elif [[ $previous == = ]]; then
    previous=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  for ((i = 1; i < COMP_CWORD; ++i)); do
    word=${COMP_WORDS[i]}
    if [[ $word == -- ]]; then
      if declare -F _command_offset >/dev/null; then
        _command_offset $((i + 1))
      elif ((i + 1 == COMP_CWORD)); then
        mapfile -t COMPREPLY < <(compgen -c -- "$current")
      fi
      return
    fi
    [[ " $(_pollux_words "$command") " == *" $word "* && $word != -* ]] || continue
    command=${command:+$command }$word
  done
  words=$(_pollux_words "$command")
  for word in $words; do
    [[ $word != "$previous":* ]] || kind=${word#*:}
  done
  case $kind in
    interfaces) words=$(cd /sys/class/net && echo *) ;;
    cores)
      words=$(cd /sys/devices/system/cpu && echo cpu[0-9]*)
      words=${words//cpu/}
      ;;
    words:*) words=${kind#words:} words=${words//,/ } ;;
    directories)
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -d -- "$current")
      return
      ;;
    none) return ;;
    files) words= ;;
    *) words=$(printf '%s ' $words | sed -E 's/:[^ ]*//g') ;;
  esac
  if [[ $kind == files || ($words == --* && $current != -*) ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
    return
  fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}

complete -F _pollux pollux
