// A client on the TypeScript SDK: node client.mjs CMD ARG…
//
// It lists the tools of the server that CMD starts, calls its tool echo, closes, and
// prints what came of that as an object on one line.
import { subscribe } from 'node:diagnostics_channel';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';

let exited; // the SDK does not tell how the server ended
subscribe('child_process', ({ process: server }) => {
  exited = new Promise((resolve) => server.once('close', (status, signal) => resolve(signal ?? status)));
});

const [command, ...args] = process.argv.slice(2);
const errors = [];
const client = new Client({ name: 'client', version: '1.0.0' });
client.onerror = (error) => errors.push(String(error));

await client.connect(new StdioClientTransport({ command, args }));
const { tools } = await client.listTools();
const { content } = await client.callTool({ name: 'echo', arguments: { message: 'hello' } });
await client.close();

console.log(JSON.stringify({ tools: tools.map((tool) => tool.name), content, errors, exit: await exited }));
