// MONITOR on a socket of its own: a client may take a line that comes together with the OK for the reply to something else.
import { once } from 'node:events';
import { connect } from 'node:net';
import { createInterface } from 'node:readline';

/** A command that a server has run; `source` is the client's address, or `lua` where a script called it. */
export interface MonitoredCommand {
  name: string;
  key: string;
  source: string;
}

const LINE = /^\+[\d.]+ \[\d+ (.*?)\] "((?:[^"\\]|\\.)*)"(?: "((?:[^"\\]|\\.)*)")?/;

/** Hears every command from now on, until the server ends or the function returned here is called. */
export async function monitor(path: string, heard: (command: MonitoredCommand) => void): Promise<() => void> {
  const socket = connect(path);
  socket.on('error', () => {});
  const lines = createInterface({ input: socket });
  socket.write('MONITOR\r\n');
  await once(lines, 'line');
  lines.on('line', (line) => {
    const [, source = '', name = '', key = ''] = LINE.exec(line) ?? [];
    heard({ name: name.toLowerCase(), key, source });
  });
  return () => socket.destroy();
}
