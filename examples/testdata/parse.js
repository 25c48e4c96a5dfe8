// Reads lines on standard input and writes what JSON.parse makes of each: the
// members of a JSON-RPC envelope that are there, as JSON that loses nothing which
// Go's float64 and strings can hold. "\n" alone ends a line.
'use strict'

const names = ['jsonrpc', 'id', 'method', 'params', 'result', 'error']

// JSON has no infinity, which is what JSON.parse makes of 1e400.
const finite = (_, v) => (typeof v === 'number' && !Number.isFinite(v) ? { infinity: v > 0 } : v)

function reading(line) {
  let message
  try {
    message = JSON.parse(line)
  } catch (e) {
    return { refused: String(e) }
  }
  // By property access, as programs do, so that a polluted prototype would show.
  const members = {}
  for (const name of names) {
    if (message[name] !== undefined) members[name] = message[name]
  }
  return { members }
}

const lines = require('fs').readFileSync(0, 'utf8').split('\n')
lines.pop() // behind the last newline
process.stdout.write(lines.map((line) => JSON.stringify(reading(line), finite) + '\n').join(''))
