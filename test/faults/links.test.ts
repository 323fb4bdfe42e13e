// The network between an engine and Redis.
import { testFaults } from './short.ts';

testFaults('9 half-open');
