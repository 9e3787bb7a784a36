#compdef pollux
# zsh completion for pollux. Made by tools/build/manual.py from what `pollux --help` knows.

_pollux_interfaces() {
  local -a interfaces=(/sys/class/net/*(N:t))
  compadd -a interfaces
}

_pollux_cores() {
  local -a cores=(/sys/devices/system/cpu/cpu<->(N:t))
  compadd -- ${cores#cpu}
}

# Sets what a command has: `commands` below it, or `options`.
_pollux_table() {
  commands=() options=()
  case $1 in
@CASES@
  esac
}

_pollux() {
  local -a commands options
  local command=
  _pollux_table ''
  while ((CURRENT > 2)) && (($#commands)) && [[ -n ${commands[(r)${words[2]}:*]} ]]; do
    command=${command:+$command }${words[2]}
    shift words
    ((CURRENT--))
    _pollux_table "$command"
  done
  if (($#commands)); then
    _describe command commands
  elif [[ $command == run ]]; then
    _arguments -S $options '*::program:_normal'
  else
    _arguments $options '*:file:_files'
  fi
}

_pollux "$@"
