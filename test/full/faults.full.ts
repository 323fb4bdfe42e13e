// Rows of the fault matrix that take longer than what they add to those of test/faults.
import { testFaults } from '../faults/short.ts';

testFaults('9 silent', '9 reset', '12', '22', '23', '27');
