// The network between an engine and Redis.
import { testFaults } from './short.ts';

testFaults('9 silent', '9 reset', '9 half-open');
