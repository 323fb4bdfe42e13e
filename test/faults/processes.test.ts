// Processes and threads that die or leave.
import { testFaults } from './short.ts';

testFaults('1', '3');
