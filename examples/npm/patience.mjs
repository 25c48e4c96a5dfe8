// Loaded before a client, with node --import: the TypeScript SDK sends SIGTERM to a server
// that has not exited 2 s after the end of its input, which a busy machine may need.
const wait = globalThis.setTimeout;
globalThis.setTimeout = (callback, ms, ...args) => wait(callback, ms * 30, ...args);
